"""The style sheet of the report, inlined into it.

Fonts are named for scripts that a system's first choice may lack; Han characters are drawn as the
text's language wants them. Marks are signs as well as colors, so that they read in gray.
"""

CSS = """
:root { color-scheme: light; }
body { margin: 0; background: #fff; color: #1f2328;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans Hebrew",
    "Noto Sans Arabic", "Noto Sans Thai", "Noto Sans CJK SC", "Arial Unicode MS", sans-serif; }
:lang(zh) { font-family: system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei",
  sans-serif; }
:lang(ja) { font-family: system-ui, "Noto Sans CJK JP", "Hiragino Sans", "Yu Gothic", sans-serif; }
:lang(ko) { font-family: system-ui, "Noto Sans CJK KR", "Malgun Gothic", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 24px; }
header { border-left: 6px solid #57606a; background: #f6f8fa; padding: 12px 20px; }
header.pass { border-color: #1a7f37; }
header.fail { border-color: #cf222e; }
header.underpowered { border-color: #9a6700; }
header h1 { margin: 4px 0 8px; font-size: 24px; }
header .model { margin: 0; color: #57606a; }
h2 { margin: 32px 0 8px; font-size: 19px; border-bottom: 1px solid #d0d7de; padding-bottom: 4px; }
h3 { margin: 20px 0 4px; font-size: 15px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 8px 0; font-size: 14px; }
th, td { border: 1px solid #d0d7de; padding: 4px 8px; text-align: left; vertical-align: top; }
th { background: #f6f8fa; font-weight: 600; }
td { font-variant-numeric: tabular-nums; }
td code { word-break: break-all; }
td div[dir] { text-align: start; }
figure { margin: 8px 0; overflow-x: auto; }
figcaption { color: #57606a; font-size: 13px; }
pre { background: #f6f8fa; padding: 8px 12px; overflow-x: auto; font-size: 13px; }
.status { font-weight: 600; }
.status.pass { color: #1a7f37; }
.status.fail { color: #cf222e; }
.status.underpowered { color: #9a6700; }
ins { background: #dafbe1; text-decoration: underline; }
del { background: #ffebe9; text-decoration: line-through; }
ins::before { content: "+"; font-weight: 600; }
del::before { content: "\\2212"; font-weight: 600; }
"""
