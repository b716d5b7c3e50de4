"""IoTDB's RPC: what its sessions call over Thrift, on a port of its own (docs/decisions, "IoTDB's RPC"). A
call leads to the same statements and writes as over the REST door.

``server``: connections and frames; ``protocol``: from a frame to a call and back; ``calls``: what each call
does; ``writes``: its rows; ``replies``: its answers; ``session``: who is connected, and which answers are
being fetched.
"""
