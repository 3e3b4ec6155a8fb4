"""What travels between the coordinator and a participant: requests, replies, and how they become bytes."""

from __future__ import annotations

from intarsia.protocol.catalogue import decode_reply, decode_request, phase_of
from intarsia.protocol.checks import MOST_JOINT_LEVELS
from intarsia.protocol.columns import AskColumns, ColumnKinds
from intarsia.protocol.densities import DensityMessage
from intarsia.protocol.describe import Describe, Description
from intarsia.protocol.failure import Failure
from intarsia.protocol.keep_model import KeepModel, ModelKept
from intarsia.protocol.label import Assign, Label, Labelled
from intarsia.protocol.parts import Centres, Columns, Gaussians, Moments
from intarsia.protocol.private import AskSketch, AskSums, KeepLabels, LabelsKept, NoisySums, Sketched
from intarsia.protocol.refine import MOST_SETS, Refine, Refined, Refinement
from intarsia.protocol.repeat import CountMoves, LabelBefore, Moves
from intarsia.protocol.secure import (
    AskKeys,
    AskMasked,
    AskShares,
    AskUnmask,
    Keys,
    Masked,
    Shares,
    Unmasked,
)
from intarsia.protocol.stability import LocalStability, MeasureStability
from intarsia.protocol.summarize import MOST_LOCAL_CLUSTERS, LocalSummary, Summarize
from intarsia.protocol.terms import StudyTerms
from intarsia.protocol.wire import Array, Exchange, Message, Reply, Request, encode, tag_of

__all__ = [
    "MOST_JOINT_LEVELS",
    "MOST_LOCAL_CLUSTERS",
    "MOST_SETS",
    "Array",
    "AskColumns",
    "AskKeys",
    "AskMasked",
    "AskShares",
    "AskSketch",
    "AskSums",
    "AskUnmask",
    "Assign",
    "Centres",
    "ColumnKinds",
    "Columns",
    "CountMoves",
    "DensityMessage",
    "Describe",
    "Description",
    "Exchange",
    "Failure",
    "Gaussians",
    "KeepLabels",
    "KeepModel",
    "Keys",
    "Label",
    "LabelBefore",
    "Labelled",
    "LabelsKept",
    "LocalStability",
    "LocalSummary",
    "Masked",
    "MeasureStability",
    "Message",
    "ModelKept",
    "Moments",
    "Moves",
    "NoisySums",
    "Refine",
    "Refined",
    "Refinement",
    "Reply",
    "Request",
    "Shares",
    "Sketched",
    "StudyTerms",
    "Summarize",
    "Unmasked",
    "decode_reply",
    "decode_request",
    "encode",
    "phase_of",
    "tag_of",
]
