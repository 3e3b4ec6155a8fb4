"""The mathematics: pure functions of arrays. numpy and scipy only; no I/O, no logging, no clock, no global randomness."""
