"""The delivery audit of event logs."""
