"""Validation of GPU kernels: runner, stages, devices, report, and the emulator that they run on."""
