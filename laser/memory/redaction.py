"""Taking recognised secrets out of a text before it leaves for somebody else."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["redact"]

_MARK: Final = "[redacted]"

# Whole secrets, by the form that their issuer gives them.
_WHOLE: Final = re.compile(
    r"""
      -----BEGIN[ ](?:[A-Z0-9]+[ ])*PRIVATE[ ]KEY-----[\s\S]*?(?:-----END[ ](?:[A-Z0-9]+[ ])*PRIVATE[ ]KEY-----|\Z)
    | \beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*     # JSON web tokens
    | \b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9_-]{16,}         # OpenAI, Anthropic, Stripe
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_[A-Za-z0-9_]{20,}     # GitHub
    | \bglpat-[A-Za-z0-9_-]{16,}                                        # GitLab
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}                                  # Slack
    | \b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}\b                      # AWS
    | \bAIza[A-Za-z0-9_-]{30,}                                          # Google
    | \bnpm_[A-Za-z0-9]{30,} | \bpypi-[A-Za-z0-9_-]{30,} | \bhf_[A-Za-z0-9]{20,}
    """,
    re.VERBOSE,
)
# Values that stand behind a telling name. Nothing is asked of what stands before the name: MY_PASSWORD and dbPassword
# tell too, and a pattern for that would try every beginning of a long text.
_NAMED: Final = re.compile(
    r"""
    (?P<head>
        (?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret)
        ["']?\s*(?:[:=]|\bis\b)\s*
      | \bauthorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic)\s+)?
      | \b(?:bearer|basic)\s+(?=[^\s,;"'<>]{8})(?=[^\s,;"'<>]*[0-9=])
    )
    (?:"[^"\n]+" | '[^'\n]+' | [^\s,;"'<>]{4,})
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Between a user's name and a host; the lengths keep hostile texts from taking long.
_IN_URL: Final = re.compile(r"(?P<head>\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,64}:)[^\s\"'<>]{1,256}@", re.IGNORECASE)
_DIGITS: Final = re.compile(r"(?<![\d.-])\d(?:[ -]?\d){12,}(?!\d)")
_GROUP: Final = re.compile(r"\d+")
_CARD_DIGITS: Final = range(13, 20)
_CARD_GROUPS: Final = 6


def redact(text: str) -> str:
    """The text with recognised secrets replaced: keys and tokens by their issuers' forms, private keys, what is given
    as a password, secret or token, credentials in URLs, and payment card numbers.

    It cannot recognise every secret.
    """
    text = _WHOLE.sub(_MARK, text)
    text = _IN_URL.sub(lambda match: f"{match['head']}{_MARK}@", text)
    text = _NAMED.sub(lambda match: match["head"] + _MARK, text)
    return _DIGITS.sub(lambda match: _without_cards(match[0]), text)


def _without_cards(run: str) -> str:
    """Digits with single spaces or dashes between them, without the card numbers: a date may stand right behind one."""
    groups = [match.span() for match in _GROUP.finditer(run)]
    kept: list[str] = []
    done = first = 0
    while first < len(groups):
        start, count = groups[first][0], 0
        for last in range(first, min(first + _CARD_GROUPS, len(groups))):
            count += groups[last][1] - groups[last][0]
            if count >= _CARD_DIGITS.stop:
                break
            if count in _CARD_DIGITS and _is_card(run[start : groups[last][1]]):
                kept += [run[done:start], _MARK]
                done, first = groups[last][1], last
                break
        first += 1
    return "".join([*kept, run[done:]])


def _is_card(text: str) -> bool:
    digits = [int(char) for char in text if char.isdigit()]
    doubled = [2 * digit - 9 * (digit > 4) if place % 2 else digit for place, digit in enumerate(reversed(digits))]
    return digits[0] in range(2, 7) and len(set(digits)) > 1 and sum(doubled) % 10 == 0
