"""The order of conditions: `orders` has squares and constrained orders, `sequence` what each participant gets."""

from haptic_study.design.orders import constrained, full, latin_square, williams
from haptic_study.design.sequence import Condition, DesignParameters, blocks, sequence

__all__ = ["Condition", "DesignParameters", "blocks", "constrained", "full", "latin_square", "sequence", "williams"]
