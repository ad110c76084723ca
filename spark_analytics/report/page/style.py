"""The page's one style sheet, for phones, screens and paper, with a light and a dark background."""

from __future__ import annotations

from .states import STATES

LIGHT = {
    "paper": "#fdfcf9",
    "raised": "#f5f2eb",
    "ink": "#1d1c1a",
    "soft": "#5c5851",
    "rule": "#d8d3c8",
    "grid": "#e7e3da",
    "good": "#1f6b4a",
    "attention": "#8a5a00",
    "bad": "#a82c06",
    "bad-paper": "#fbeae2",
    "sign": "#ffffff",
    "change": "#4d5d75",
    "abuse": "#8a5a00",
    "p50": "#276894",
    "p95": "#1f7a6c",
    "p99": "#8a5a00",
    "max": "#6b6760",
}
DARK = {
    "paper": "#16171a",
    "raised": "#1f2125",
    "ink": "#ebe8e1",
    "soft": "#aaa69d",
    "rule": "#3b3d42",
    "grid": "#2a2c31",
    "good": "#62c596",
    "attention": "#e6ac45",
    "bad": "#ff7752",
    "bad-paper": "#35190f",
    "sign": "#16171a",
    "change": "#93a6c4",
    "abuse": "#e6ac45",
    "p50": "#6db0da",
    "p95": "#5fbfae",
    "p99": "#e6ac45",
    "max": "#9d9990",
}


def _variables(colours: dict[str, str], dark: bool) -> str:
    states = {f"s-{state.name}": state.dark if dark else state.light for state in STATES}
    return "".join(f"--{name}:{value};" for name, value in {**colours, **states}.items())


def sheet(foot: str = "") -> str:
    """Return the style sheet. `foot`: the text at the foot of each printed page, without quotes and backslashes."""
    light, dark = _variables(LIGHT, False), _variables(DARK, True)
    fills = "".join(f".s-{s.name}{{fill:var(--s-{s.name})}}" for s in STATES if s.name not in ("unknown", "pending"))
    return (
        f":root{{color-scheme:light;{light}}}"
        f"@media (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}"
        f":root[data-theme=light]{{color-scheme:light;{light}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}"
        f"@media print{{:root:root:root{{color-scheme:light;{light}}}}}"
        f"{fills}{_RULES}{_PAPER.replace('FOOT', foot)}"
    )


_RULES = """
.s-unknown{fill:url(#hatch-unknown);stroke:var(--s-unknown);stroke-width:1;vector-effect:non-scaling-stroke}
.s-pending{fill:url(#hatch-pending);stroke:var(--s-pending);stroke-width:1;vector-effect:non-scaling-stroke}
.s-change{fill:var(--change)}.s-change-off{fill:url(#hatch-off);stroke:var(--change);stroke-width:1;vector-effect:non-scaling-stroke}
.s-abuse{fill:var(--abuse)}
.c-whole{fill:var(--s-delivered)}.c-tail{fill:var(--s-acked)}.c-pruned{fill:var(--grid);stroke:var(--soft);vector-effect:non-scaling-stroke}
.c-missing{fill:url(#hatch-missing);stroke:var(--s-unaccounted);vector-effect:non-scaling-stroke}.c-none{fill:none;stroke:var(--rule)}
:root{--serif:Charter,"Bitstream Charter","Sitka Text",Cambria,Georgia,"Liberation Serif",serif;
 --sans:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",Arial,sans-serif;
 --mono:ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace;--l:8.75rem;--r:6.25rem}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--paper);color:var(--ink);font:1.0625rem/1.55 var(--serif);
 font-variant-numeric:tabular-nums lining-nums;
 overflow-wrap:break-word}
main,header,footer{max-width:74rem;margin:0 auto;padding:0 1.5rem}
a{color:inherit;text-decoration-color:var(--soft);text-underline-offset:.18em}
a:hover{text-decoration-color:currentColor}
:focus-visible{outline:2px solid var(--p50);outline-offset:2px}
b,strong{font-weight:650}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;background:var(--paper);padding:.4rem .8rem;
 z-index:3}
header{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;align-items:baseline;padding-top:1.75rem;
 font:.875rem/1.5 var(--sans);color:var(--soft)}
header .name{color:var(--ink);font-weight:650}
header .spacer{flex:1}
#theme{display:none;font:inherit;color:var(--ink);background:none;border:1px solid var(--rule);border-radius:4px;
 padding:.3rem .7rem;cursor:pointer}
.js #theme{display:inline-block}#theme:hover{background:var(--raised)}
h1,h2,h3{font-weight:600;line-height:1.2;text-wrap:balance;margin:0}
h1{font-size:clamp(1.7rem,1.1rem + 2.4vw,2.75rem);letter-spacing:-.012em;max-width:24em}
h2{font-size:clamp(1.4rem,1.2rem + .8vw,1.8rem);letter-spacing:-.008em}
h3{font-size:1.1rem;line-height:1.3}
.verdict{padding:2.5rem 0 1.75rem}
.level{display:flex;gap:.55rem;align-items:center;margin:0 0 .8rem;font:650 .9375rem/1 var(--sans)}
.level.good{color:var(--good)}.level.attention{color:var(--attention)}.level.bad{color:var(--bad)}.level.info{color:var(--soft)}
.mark .shape{fill:currentColor}.mark .sign{fill:none;stroke:var(--sign);stroke-width:2.6;stroke-linecap:round;
 stroke-linejoin:round}
.mark{flex:none}
.reached{font:1.0625rem/1.5 var(--sans);margin:.9rem 0 0}
.equation{font:.9375rem/1.9 var(--sans);margin:1.4rem 0 0;padding:.85rem 0 .9rem;border-top:1px solid var(--ink);
 border-bottom:1px solid var(--rule);color:var(--soft)}
.equation .term{white-space:nowrap;color:var(--ink)}.equation .term.zero,.equation .term.zero b{color:var(--soft);
 font-weight:400}
.found{display:grid;grid-template-columns:18rem minmax(0,1fr);gap:0 3rem;padding:.5rem 0 1rem}
.found h2{font-size:1.1rem;line-height:1.3}
.found .alt{margin:.2rem 0 0}.found .alt .findings{margin-top:.8rem;font:1.0625rem/1.5 var(--serif)}
.findings{list-style:none;margin:0;padding:0}
.findings li{display:flex;gap:.8rem;padding:0 0 .9rem}.findings li p{margin:0;max-width:42em}
.findings .mark{width:18px;height:18px;margin-top:.28rem}
.findings .good .mark{color:var(--good)}.findings .attention .mark{color:var(--attention)}
 .findings .bad .mark{color:var(--bad)}.findings .info .mark{color:var(--soft)}
.findings .remedy{color:var(--soft);font-size:.98em}
.run-in{font:650 .8125rem/1.4 var(--sans);color:var(--ink);margin-right:.15em}
nav{border-top:1px solid var(--rule);border-bottom:1px solid var(--rule);padding:.7rem 0;font:.875rem/2 var(--sans)}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:0 1.4rem;margin:0;padding:0}
nav a{text-decoration:none}nav a:hover{text-decoration:underline}
nav .to-do{color:var(--bad);font-weight:650}nav .mark{width:13px;height:13px;vertical-align:-1.5px;margin-left:.1em}
section{padding:3.5rem 0 .5rem}
.lead{max-width:42em;margin:.7rem 0 1.6rem}
.about{max-width:42em;margin:1.5rem 0 0}
.figure{margin:0;padding:1.5rem 0 2rem;border-top:1px solid var(--rule);display:grid;column-gap:3rem;
 grid-template-columns:18rem minmax(0,1fr);grid-template-rows:auto auto auto 1fr;
 grid-template-areas:"title chart" "see chart" "do chart" "rest chart" "alt alt"}
.picture{display:contents}
.figure h3{grid-area:title;margin-bottom:.7rem}.figure .see{grid-area:see}.figure .do{grid-area:do}
 .figure .chart{grid-area:chart;min-width:0}
.figure>.alt{grid-area:alt}
.figure .see,.figure .do{margin:0 0 .8rem;font-size:.98rem;line-height:1.5}
.none-here{grid-template-areas:"title chart";grid-template-rows:auto}.none-here .nothing{grid-area:chart}
.nothing{color:var(--soft);margin:0}
.figure.bad .see strong{color:var(--bad)}
.chart{font:.8125rem/1.4 var(--sans)}
.chart-title{font:650 .8125rem/1.4 var(--sans);margin:1.3rem 0 .6rem}.chart-title:first-child{margin-top:.1rem}
 .chart-title .fine{font-weight:400}
.plot{display:block;overflow:visible;font:12px/1 var(--sans)}
.plot text,.strip text{fill:var(--soft);font-variant-numeric:tabular-nums lining-nums}
.plot .note,.plot .tick{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}
.plot .ytick{text-anchor:end}.plot .note{fill:var(--ink)}.plot .note.alarm{fill:var(--bad);font-weight:650}
.grid{stroke:var(--grid)}.base{stroke:var(--soft)}.marks{overflow:visible}
.line{fill:none;stroke-width:1.75;stroke-linejoin:round;stroke-linecap:round;vector-effect:non-scaling-stroke}
.l-p50{stroke:var(--p50);stroke-width:2.5}.l-p95{stroke:var(--p95)}.l-p99{stroke:var(--p99);stroke-dasharray:5 3}
 .l-max{stroke:var(--max);stroke-width:1;stroke-dasharray:1 3}
.plot .n-p50{fill:var(--p50);font-weight:650}.plot .n-p95{fill:var(--p95)}.plot .n-p99{fill:var(--p99)}
 .plot .n-max{fill:var(--max)}
.wait-area{fill:var(--s-pending);opacity:.28}.wait-line{stroke:var(--ink)}.ahead{stroke:var(--bad);stroke-dasharray:5 4}
.dot{stroke-width:5.5}
.limit{stroke:var(--bad)}.due{stroke:var(--ink);stroke-dasharray:2 3}.tickmark{stroke:var(--ink);stroke-width:1.5}
.hits rect{fill:transparent}.hits rect:hover{fill:var(--ink);opacity:.08}
.rows{display:block}
.row{display:grid;grid-template-columns:var(--l) minmax(0,1fr) var(--r);align-items:center;column-gap:.75rem;
 padding:.28rem 0}
.row-name{grid-column:1;line-height:1.35}.row-plot{grid-column:2;min-width:0}.row-value{grid-column:3;line-height:1.3}
.row-value .fine{display:block}.row-note{grid-column:2/4;color:var(--soft);margin-top:-.1rem}
.fine{color:var(--soft)}
.lane{align-items:end}.frame{padding-top:1.9rem}.frame .row{padding:0}
.lined .row{--r:3.25rem}
.s-unaccounted-row .row-name,.s-unaccounted-row b{color:var(--bad);font-weight:650}
 .alarm-row .row-value b{color:var(--bad)}
.axis-row{padding-top:.15rem}.hop{padding:0}.hop .row-name{font-size:.97em}.roomy .row{--r:10.75rem}
 .row-value .fine,.row-value b{white-space:nowrap}.roomy .row-value .fine{white-space:normal}
.legend{display:flex;flex-wrap:wrap;gap:.15rem 1.1rem;margin:0 0 .4rem;font:.8125rem/1.6 var(--sans)}
.state{white-space:nowrap}.swatch{vertical-align:-1px;margin-right:.15em}
.panels{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:1.6rem 2.2rem}
.panel .row{grid-template-columns:minmax(0,1fr);padding-left:4.3rem}.panel .row-plot{grid-column:1}
.panel-head,.forecast{margin:0}.forecast.alarm{color:var(--bad);font-weight:650}
.strip{display:block;margin:0 0 1.2rem}
.ledger{border-top:1px solid var(--ink);font:.9375rem/1.45 var(--sans)}
.entry{display:grid;grid-template-columns:9rem 7.5rem 5.5rem minmax(0,1fr);gap:0 1rem;padding:.42rem 0;
 border-bottom:1px solid var(--grid)}
.entry .n,.entry .share{text-align:right}.entry .n{font-weight:650}.entry .share,.entry .meaning{color:var(--soft)}
.entry.zero .n,.entry.zero .name{font-weight:400;color:var(--soft)}
.entry.alarm{background:var(--bad-paper)}.entry.alarm .name,.entry.alarm .n{color:var(--bad);font-weight:650}
 .entry.alarm .meaning,.entry.alarm .share{color:var(--ink)}
.sums{margin-top:-1px}.sums .entry.residual{border-bottom:3px double var(--ink)}.sums .residual .name{font-weight:650}
.unknown{margin:1.8rem 0 1rem;max-width:46em}.plain{padding-left:1.1rem;margin:.5rem 0}.plain li{margin:.2rem 0}
.alt{margin:.8rem 0 0;font:.875rem/1.5 var(--sans)}
.alt>summary{cursor:pointer;color:var(--soft);width:max-content;max-width:100%;padding:.25rem 0}
 .alt>summary:hover{color:var(--ink)}
.scroll{overflow-x:auto;margin:.4rem 0 .8rem;max-height:34rem;overflow-y:auto}
table{border-collapse:collapse;font:.8125rem/1.45 var(--sans);min-width:100%}
.chart>.scroll:only-child caption{position:absolute;clip-path:inset(50%)}
caption{text-align:left;font-weight:650;padding:.5rem 0 .35rem;line-height:1.4}
th{text-align:left;font-weight:650;border-bottom:1px solid var(--ink);vertical-align:bottom;position:sticky;top:0;
 background:var(--paper)}
td{border-bottom:1px solid var(--grid);vertical-align:top}
th,td{padding:.3rem 1rem .3rem 0}th:last-child,td:last-child{padding-right:0}
.n{text-align:right;white-space:nowrap}td.rest,.rest{color:var(--soft)}
code{font-family:var(--mono);font-size:.92em}
.key-name{font-family:var(--sans);font-size:.96em;cursor:copy;display:inline-block;max-width:100%;
 overflow:hidden;text-overflow:ellipsis;white-space:nowrap;vertical-align:bottom;line-height:inherit}
.key{display:inline-block;max-width:12.3ch;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;vertical-align:bottom;user-select:all;cursor:copy;
 line-height:inherit}
.command{user-select:all;background:var(--raised);padding:.1em .4em;border-radius:3px;overflow-wrap:anywhere;
 cursor:copy}
td .command{display:inline-block;max-width:26ch;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;
 vertical-align:bottom}
.copied{outline:2px solid var(--good);outline-offset:1px}
.path,.whole{overflow-wrap:anywhere}.whole{user-select:all}
.problems{margin:0;padding-left:1.1rem;font:.875rem/1.5 var(--sans)}
 .problems li{margin-bottom:.4rem}
.glossary{columns:2;column-gap:3rem;margin:1.2rem 0 2rem}.glossary div{break-inside:avoid;margin-bottom:.8rem}
dt{font-weight:650}dd{margin:0;color:var(--soft)}
.source{max-width:46em;color:var(--soft);font-size:.95rem}footer{padding-bottom:4rem}
#tip{position:fixed;z-index:2;max-width:min(22rem,calc(100vw - 16px));background:var(--ink);color:var(--paper);
 font:.8125rem/1.4 var(--sans);
 padding:.4rem .6rem;border-radius:4px;pointer-events:none}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
@media (max-width:60rem){
 .figure,.found{display:block}.figure h3{margin-bottom:.4rem}.figure .chart{margin:1rem 0}.found h2{margin-bottom:.8rem}
 :root{--l:7.5rem}
}
@media (max-width:40rem){
 body{font-size:1rem}main,header,footer{padding:0 1rem}header{padding-top:1rem}header .spacer{display:none}
 .verdict{padding:1.75rem 0 1.25rem}section{padding-top:2.5rem}
 .wide{display:none}
 .row{grid-template-columns:minmax(0,1fr) auto;padding:.35rem 0;row-gap:.2rem}
 .row-name{grid-column:1;grid-row:1}.row-value{grid-column:2;grid-row:1;text-align:right}
 .row-value .fine{display:inline;margin-left:.5em}
 .row-plot{grid-column:1/3;grid-row:2}.row-note{grid-column:1/3;grid-row:3}
 .frame .row{padding-left:2.9rem}.panel .frame .row{padding-left:4.3rem}.frame.lined .row{padding-right:2.1rem}
 .panels{grid-template-columns:minmax(0,1fr)}
 .entry{grid-template-columns:minmax(0,1fr) auto 4.6rem;gap:0 .6rem}.entry .meaning{grid-column:1/4}
 .glossary{columns:1}
}
@media (max-width:48rem){.panels{grid-template-columns:minmax(0,1fr)}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
"""

_PAPER = """
/* A browser breaks a page behind a heading if no better place is near, whatever break-after says: so a heading takes
   room for what follows it, without moving that. */
@page{size:A4;margin:17mm 15mm 19mm;
 @bottom-left{content:"FOOT";font:8pt "Helvetica Neue","Liberation Sans",Arial,sans-serif;color:#5c5851}
 @bottom-right{content:"page " counter(page) " of " counter(pages);
  font:8pt "Helvetica Neue","Liberation Sans",Arial,sans-serif;color:#5c5851}}
@media print{
 body{font-size:10pt;line-height:1.4;orphans:3;widows:3}main,header,footer{max-width:none;padding:0}
 #theme,nav,#tip,.skip{display:none!important}
 h2,h3,.lead,.see,.chart-title,.alt>summary,caption,.legend{break-after:avoid}
 h2::after,h3::after,.chart-title::after,.alt>summary::after{content:"";display:block;height:var(--room);
  margin-bottom:calc(-1*var(--room))}
 h2{--room:19rem}h3{--room:13rem}.chart-title{--room:9rem}.alt>summary{--room:5rem}
 h1,h2,h3,.lead,.chart-title,.alt>summary,.level,.equation,.entry,.panel,.row,.rows,.plot,.frame,.legend,tr,
 .findings li,.problems li,.plain li,.glossary div{break-inside:avoid}
 :root:root:root{--paper:#fff}.found .alt .findings,.figure .see,.figure .do{font-size:10pt;line-height:1.4}
 .alt td:first-child{white-space:nowrap}
 thead{display:table-header-group;break-inside:avoid;break-after:avoid}th{position:static}
 tbody tr:first-child{break-before:avoid}
 section{padding-top:1.4rem}.figure{padding:1rem 0 1.1rem}.figure .chart{margin:.6rem 0 .4rem}
 .verdict{padding:1.2rem 0 1rem}.lead{margin:.4rem 0 .9rem}
 .alt{display:block;margin:.4rem 0 0}.alt>summary{list-style:none;color:var(--ink);font-weight:650}
 .alt>summary::-webkit-details-marker{display:none}
 .alt::details-content{content-visibility:visible;display:block;block-size:auto;height:auto}
 .picture{display:block}.picture,.about,.see{break-inside:avoid}.findings li p,.unknown{max-width:none}
 .scroll{overflow:visible;max-height:none}.key{max-width:11ch}td .command{max-width:none;white-space:normal;
 overflow-wrap:anywhere}
 :is(.findings,.unknown) :is(.key,.key-name){display:inline;max-width:none;overflow:visible;white-space:normal;
  overflow-wrap:anywhere}
 :is(.findings,.unknown) .key-name::after{content:" (" attr(data-key) ")";font-family:var(--mono);font-size:.92em}
 table{font-size:7.5pt}th,td{padding:.2rem .6rem .2rem 0}
 svg,.entry.alarm{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
"""
