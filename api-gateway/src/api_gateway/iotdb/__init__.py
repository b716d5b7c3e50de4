"""The dialect of IoTDB: its statements and rows, run on the same tables as everything else."""
