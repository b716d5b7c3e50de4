"""IoTDB's dialect: its statements and rows, on the same tables as everything else."""
