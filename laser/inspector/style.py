"""The style sheet. Colours of categories are told apart by lightness as well."""

from __future__ import annotations

from typing import Final

__all__ = ["COLOURS", "STYLE"]

COLOURS: Final = 10
"""Classes ``k0`` … of categories."""

_PALETTE: Final = (
    "#2f5d9e", "#d98c1f", "#3f8f5b", "#b03a48", "#7a5aa6", "#8a6d3b", "#cf6fa3", "#6f7782", "#a3a832", "#3aa6b0",
)  # fmt: skip

STYLE: Final = (
    """
:root { color-scheme: light dark; --ink: #1c2024; --dim: #667079; --line: #d8dde2; --back: #fff; --soft: #f4f6f8;
  --link: #1f5fbf; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7ea; --dim: #98a2ab; --line: #39424a; --back: #15191c;
  --soft: #1e2429; --link: #7fb0ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
nav { display: flex; flex-wrap: wrap; gap: 1.2em; padding: .7em 1.4em; border-bottom: 1px solid var(--line); }
main { padding: 0 1.4em 3em; max-width: 76em; }
h1 { font-size: 1.35em; margin: 1em 0 .2em; } h2 { font-size: 1.1em; margin: 2em 0 .5em; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
a[aria-current] { color: var(--ink); font-weight: 600; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { margin: .2em 0 0; padding: .6em .8em; background: var(--soft); border-radius: 4px; white-space: pre-wrap;
  overflow-wrap: anywhere; unicode-bidi: plaintext; }
.text, td, dd, li { unicode-bidi: isolate; }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin: .4em 0; }
th, td { padding: .25em 1em .25em 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
td { overflow-wrap: break-word; } td code { white-space: nowrap; }
th { color: var(--dim); font-weight: 500; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.dim, .id { color: var(--dim); } .more { margin: 0; } .id { margin: 0 0 1em; }
.note { border-left: 3px solid #d98c1f; padding: .3em .8em; background: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15em 1.2em; margin: .5em 0; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
article { margin: 1.1em 0; } article header { display: flex; flex-wrap: wrap; gap: .2em 1em; }
article header b { min-width: 5em; }
form { display: flex; flex-wrap: wrap; gap: .6em; align-items: end; margin: .8em 0; }
label { display: grid; color: var(--dim); font-size: .85em; }
input, select, button { font: inherit; padding: .2em .5em; background: var(--back); color: var(--ink);
  border: 1px solid var(--line); border-radius: 4px; }
.pages { display: flex; gap: 1.2em; margin: 1em 0; }
ul.tree { list-style: none; padding: 0; } ul.tree li { margin: .3em 0; border-left: 2px solid var(--line);
  padding-left: .7em; }
figure { margin: 1em 0; overflow-x: auto; } figure img { border: 1px solid var(--line); background: #fff; }
svg { width: 100%; height: auto; max-height: 26em; } svg text { fill: var(--dim); font: 11px system-ui, sans-serif; }
svg .axis { stroke: var(--line); } svg .room { stroke: var(--ink); stroke-dasharray: 4 3; fill: none; }
svg .measured { fill: var(--back); stroke: var(--ink); stroke-width: 1.5; }
svg .cached { fill: var(--ink); } svg .broke { fill: #b03a48; }
.legend { display: flex; flex-wrap: wrap; gap: .3em 1.2em; } .legend svg { width: 1em; height: 1em; }
.legend span { display: inline-flex; gap: .4em; align-items: center; }
"""
    + "".join(f".k{number} {{ fill: {colour}; }}\n" for number, colour in enumerate(_PALETTE))
    + "".join(f"ul.tree li.d{depth} {{ margin-left: {1.6 * depth:.1f}em; }}\n" for depth in range(1, 13))
)
