"""Conversions between units that tables mix up most often: factors, shifts and their names, in one place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Conversion(NamedTuple):
    """Values in the second unit are ``factor`` × values in the first + ``shift``.

    ``columns`` are parts of column names for which the conversion is likelier than others of about the same size.
    ``low`` and ``high`` bound usual means in the first unit, where there is a shift.
    """

    factor: float
    shift: float
    units: str
    columns: tuple[str, ...] = ()
    low: float = -np.inf
    high: float = np.inf

    @property
    def inverse(self) -> Conversion:
        """The conversion back, from the second unit to the first."""
        low, high = (self.factor * bound + self.shift for bound in (self.low, self.high))
        return Conversion(1.0 / self.factor, -self.shift / self.factor, self.units, self.columns, low, high)


FACTORS = (
    *(Conversion(10.0**k, 0.0, "powers of ten") for k in (1, 2, 4, 5, 6)),
    Conversion(1000.0, 0.0, "a thousand, such as g and kg"),
    Conversion(88.42, 0.0, "creatinine in mg/dl and µmol/l", ("crea", "krea", "scr")),
    Conversion(18.016, 0.0, "glucose in mmol/l and mg/dl", ("glu", "glc", "sugar")),
    Conversion(38.67, 0.0, "cholesterol in mmol/l and mg/dl", ("chol", "ldl", "hdl")),
    Conversion(88.57, 0.0, "triglycerides in mmol/l and mg/dl", ("trig", "tg")),
    Conversion(17.104, 0.0, "bilirubin in mg/dl and µmol/l", ("bili",)),
    Conversion(59.48, 0.0, "uric acid in mg/dl and µmol/l", ("uric", "urate")),
    Conversion(2.801, 0.0, "urea nitrogen in mmol/l and mg/dl", ("bun", "urea")),
    Conversion(4.008, 0.0, "calcium in mmol/l and mg/dl", ("calc",)),
    Conversion(1.6114, 0.0, "haemoglobin in mmol/l and g/dl", ("haemo", "hemo", "hb", "hgb")),
    Conversion(7.5006, 0.0, "kPa and mmHg", ("press", "sbp", "dbp", "bp", "po2", "co2")),
    Conversion(2.54, 0.0, "inches and cm", ("height", "length", "waist", "circum", "hip")),
    Conversion(30.48, 0.0, "feet and cm", ("height", "length")),
    Conversion(3.2808, 0.0, "m and feet", ("height", "length")),
    Conversion(2.2046, 0.0, "kg and pounds", ("weight", "mass")),
    Conversion(28.35, 0.0, "ounces and g", ("weight", "mass")),
    Conversion(1.6093, 0.0, "miles and km", ("dist", "speed")),
    Conversion(4.1868, 0.0, "kcal and kJ", ("energy", "cal")),
    Conversion(60.0, 0.0, "minutes and hours, or seconds and minutes", ("time", "dur", "min", "sec", "hour")),
    Conversion(3600.0, 0.0, "seconds and hours", ("time", "dur", "sec", "hour")),
    Conversion(24.0, 0.0, "hours and days", ("time", "dur", "hour", "day", "stay")),
    Conversion(1440.0, 0.0, "minutes and days", ("time", "dur", "min", "day")),
    Conversion(7.0, 0.0, "days and weeks", ("week", "day", "gest")),
    Conversion(12.0, 0.0, "months and years", ("age", "year", "month", "dur", "follow")),
    Conversion(30.44, 0.0, "days and months", ("day", "month", "dur", "follow")),
    Conversion(52.18, 0.0, "weeks and years", ("age", "week", "year")),
    Conversion(365.25, 0.0, "days and years", ("age", "day", "year", "dur", "follow")),
)
SHIFTS = (
    Conversion(1.8, 32.0, "°C and °F", ("temp", "fever"), 0.0, 50.0),
    Conversion(1.0, 273.15, "°C and K", ("temp",), 0.0, 50.0),
    Conversion(10.929, -23.5, "HbA1c in % and mmol/mol", ("a1c",), 3.0, 20.0),
)
OPPOSITE = Conversion(-1.0, 0.0, "the opposite sign")
CONVERSIONS = (*(each for one in (*FACTORS, *SHIFTS) for each in (one, one.inverse)), OPPOSITE)
