"""How far the default estimate is from real vocabularies: ``python -m benchmarks.estimates`` prints the docs' table."""

from __future__ import annotations

import json
from typing import Final

import laser as ls

__all__ = ["SAMPLES", "estimate_table"]

_ORDER: Final = {
    "order_id": "ORD-20931",
    "customer": {"id": "cus_8842", "email": "ann@example.org"},
    "lines": [{"sku": "SHOE-42-BLK", "qty": 1, "price_cents": 8995}, {"sku": "SOCK-39", "qty": 3, "price_cents": 495}],
    "shipped_at": "2026-03-04T15:20:00Z",
}
_CODE: Final = '''def total(lines: list[dict[str, int]]) -> int:
    """The sum of an order, in cents."""
    return sum(line["qty"] * line["price_cents"] for line in lines if line["qty"] > 0)
'''

SAMPLES: Final = {
    "English prose": "Your parcel left our depot this morning and should be with you by Thursday. If nobody is at "
    "home, the driver will leave it with a neighbour and put a card through your door.",
    "German prose": "Ihr Paket hat heute Morgen unser Lager verlassen und sollte bis Donnerstag bei Ihnen sein. Falls "
    "niemand zu Hause ist, wird es bei einem Nachbarn abgegeben.",
    "Russian prose": "Ваша посылка сегодня утром покинула склад и должна прийти к четвергу. Если никого не будет дома, "
    "курьер оставит её у соседей.",
    "Arabic prose": "غادر طردك مستودعنا هذا الصباح ومن المتوقع أن يصل إليك يوم الخميس. إذا لم يكن أحد في المنزل "
    "فسيتركه السائق عند أحد الجيران.",
    "Hindi prose": "आपका पार्सल आज सुबह हमारे गोदाम से निकल गया है और गुरुवार तक आपके पास पहुँच जाना चाहिए।",
    "Chinese prose": "您的包裹今天早上已从我们的仓库发出，预计星期四送达。"
    "如果家中无人，司机会把包裹留在邻居家，并在门上留下通知卡。",
    "Japanese prose": "お荷物は今朝倉庫を出発し、木曜日までにお届けする予定です。"
    "ご不在の場合は、お隣にお預けしてカードを残します。",
    "Korean prose": "고객님의 소포는 오늘 아침 물류 창고를 떠났으며 목요일까지 도착할 예정입니다."
    " 부재중이시면 이웃집에 맡기겠습니다.",
    "Emoji": "🔥🎉💯 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇳🇴 ✅ 🚚📦",
    "JSON": json.dumps(_ORDER),
    "JSON, indented": json.dumps(_ORDER, indent=2),
    "Python code": _CODE,
    "Ids and digits": "4f1c9e02-77ab-4c1e-9d55-0b2a6e1f8c3d 01JQ8ZK4V7M2X9C5T3B6N1R0WD 4716 9983 2210 0457 2026-03-04",
}
"""Texts by kind."""

_VOCABULARIES: Final = ("o200k_base", "cl100k_base")


def estimate_table() -> str:
    """For each kind of text the estimate, what vocabularies count, and the error: above 0 it counts too many."""
    lines = ["| text | bytes | bytes/4 | o200k_base | error | cl100k_base | error |", "| --- " * 7 + "|"]
    estimate = ls.tokens()
    for kind, text in SAMPLES.items():
        guess = estimate.count(text)
        cells = [kind, str(len(text.encode())), str(guess)]
        for name in _VOCABULARIES:
            real = ls.tokens(name).count(text)
            cells += [str(real), f"{(guess - real) / real:+.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(estimate_table(), end="")
