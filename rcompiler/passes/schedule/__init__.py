"""vdevice.program as the scheduler's data, and as the runtime's."""
