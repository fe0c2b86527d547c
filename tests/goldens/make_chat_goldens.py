#!/usr/bin/env python3
"""Renders snippets of templates with jinja2 and writes chat/snippets.json; chat_golden_test.cpp holds Lynx to it.

python3 tests/goldens/make_chat_goldens.py
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "text"))
from jinja_reference import compile_template, environment, render  # noqa: E402

VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": " Hi <b>there</b> "},
        {"role": "assistant", "content": "Hello,\nworld", "tool_calls": [{"name": "f", "arguments": {"x": 1, "y": "é"}}]},
        {"role": "user", "content": ""},
    ],
    "d": {"b": 1, "a": [1, 2.5, None, True, "q'"], "items": "shadow", "C": {"n": "deep"}},
    "s": "Grüße, 日本 🙂!",
    "n": 7,
    "f": 2.5,
    "neg": -3,
    "yes": True,
    "no": False,
    "nil": None,
    "words": ["pear", "Apple", "fig", "apple"],
    "empty": [],
    "pairs": [["k", 1], ["l", 2]],
}

SNIPPETS = {
    "white space": [
        "a\n{% if yes %}\nb\n{% endif %}\nc\n", "a\n  {% if yes %}\n  b\n  {% endif %}\nc", "a  {%- if yes -%}  b  {%- endif -%}  c",
        "a \n {{- n -}} \n b", "a\n{{ n }}\nb", "  {{ n }}  ", "x {# comment #} y\n{# line #}\nz", "a {#- tight -#} b", "a\n   {#- c #}\n b",
        "a{%+ if yes %} b{% endif %}", "  {%+ if yes %}\nb{% endif +%}\nc", "a\r\nb\rc\n", "end\n\n", "\n{% if yes %}x{% endif %}\n\n",
        "{% raw %}{{ x }} {% if %}{% endraw %}|", "a  {%- raw -%}  {{ b }}  {%- endraw -%}  c", "  {% raw %}\n x\n  {% endraw %}\ny",
        "{{ '}}' }}{{ {'a': {'b': 1}} }}", "{%- for m in messages %}\n  {{- m.role }}\n{%- endfor %}", "\u00a0{%- if yes -%}\u2003x{% endif %}",
        "{#{{ n }}#}|{{'{#'}}|{{ '{{' }}", "a\n\t{% set x = 1 %}\t\nb", "{{ n -}}\n\n{{- n }}", "{% if yes -%}\n\n  x\n{%- endif %}\n\ny",
    ],
    "literals": [
        "{{ 1 }} {{ 1_000 }} {{ 0 }} {{ 1.5 }} {{ 2.0 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789012345680.0 }} {{ 0.0001 }} {{ 0.00001 }}",
        "{{ 9223372036854775807 }} {{ -9223372036854775807 }}", "{{ 'a' }}{{ \"b\" }}{{ 'it\\'s' }}{{ \"\\\"\" }}", "{{ 'a' 'b' \"c\" }}",
        "{{ 'x\\ny\\tz\\\\n' }}", "{{ '\\x41\\u00e9\\U0001F642\\101\\q' }}", "{{ 'two\nlines' }}", "{{ true }}{{ True }}{{ false }}{{ False }}{{ none }}{{ None }}",
        "{{ [] }}{{ [1] }}{{ [1, 'a', none, 2.0,] }}", "{{ () }}{{ (1,) }}{{ (1, 2) }}{{ 1, 2 }}", "{{ {} }}{{ {'a': 1, 'b': [true]} }}{{ {1: 2, 1.5: 3, none: 4,} }}",
        "{{ {'a': 1, 'a': 2} }}", "{{ ['it\\'s', 'say \"x\"', 'both \\' \"', '\\n\\t\\r\\\\', '\\x00\\x1f\\x7f\\x80\\xad', 'é日🙂', '\\u2028\\u200b'] }}",
        "{{ [[[]], {'a': ()}] }}", "{{ 1.0 }}{{ 100.0 }}{{ 0.1 + 0.2 }}{{ 1e22 }}{{ -0.0 }}",
    ],
    "operators": [
        "{{ 1 + 2 * 3 - 4 }}", "{{ 7 / 2 }} {{ 8 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }}", "{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}",
        "{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 1 + 1.5 }} {{ true + 1 }}", "{{ -n }} {{ +n }} {{ - -n }} {{ -f }} {{ +true }}",
        "{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 2 * 'x' }} {{ 'x' * -1 }}|", "{{ [1] + [2] }} {{ [1, 2] * 2 }} {{ (1,) + (2,) }} {{ (1, 2) * 2 }}",
        "{{ 1 ~ 'a' ~ none ~ 2.0 ~ [1] ~ missing ~ true }}", "{{ 1 ~ 2 * 3 ~ 4 }}", "{{ '%s is %d%% %r' % ('x', 5, 'y') }} {{ '%s' % n }}",
        "{{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' == 'a' }} {{ [1] == [1.0] }} {{ (1,) == [1] }} {{ {'a': 1} == {'a': 1.0} }} {{ none == false }} {{ missing == missing2 }}",
        "{{ 1 != 2 }} {{ 1 < 2 }} {{ 2 <= 2 }} {{ 3 > 2.5 }} {{ 2 >= 3 }} {{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ [1, 2] < [1, 3] }} {{ 'é' > 'z' }}",
        "{{ 1 < n < 10 }} {{ 1 < n > 10 }} {{ 1 == 1 != 2 }}", "{{ 'b' in d }} {{ 'z' in d }} {{ 'z' not in d }} {{ 1 in [1.0] }} {{ 'ell' in 'hello' }} {{ '' in '' }} {{ 2 in (1, 2) }}",
        "{{ n in missing }} {{ 'a' in missing }} {{ 'pear' not in words }}", "{{ yes and no }} {{ yes or no }} {{ '' or 'x' }} {{ 'a' and 'b' }} {{ 0 and 1 }} {{ not yes }} {{ not '' }} {{ missing or 'd' }}",
        "{{ not n in [7] }} {{ not (n == 7) }} {{ yes and not no }} {{ no and 1 / 0 }}", "{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }} {{ 'a' if no }}| {{ 1 if no else 2 if no else 3 }}",
        "{{ ('a' if yes else 'b') + 'c' }} {{ 'x' + ('a' if no) ~ 'y' if no else 'z' }}", "{{ (1, 2) < (1, 2, 3) }} {{ [] < [0] }}", "{{ 5 % 2 == 1 and 'odd' }}",
        "{{ 10 ** 18 }} {{ 3 ** 0 }} {{ 0 ** 0 }} {{ (-8) ** 3 }} {{ 9 ** 0.5 }}", "{{ n is not none and n > 3 }}",
    ],
    "access": [
        "{{ d.b }} {{ d['b'] }} {{ d.C.n }} {{ d['C']['n'] }} {{ d.a[0] }} {{ d.a.1 }} {{ d.a[-1] }}", "{{ d['items'] }}", "{{ d.missing }}|{{ d['missing'] }}|{{ d.a[99] }}|{{ words[-9] }}|",
        "{{ n.foo }}|{{ nil.foo }}|{{ nil['foo'] }}|{{ s.foo }}|{{ nil[0] }}|", "{{ s[0] }}{{ s[2] }}{{ s[-2] }}{{ s[7:9] }}", "{{ words[1:] }} {{ words[:2] }} {{ words[-2:] }} {{ words[::2] }} {{ words[::-1] }} {{ words[5:] }} {{ words[2:1] }}",
        "{{ s[::-1] }} {{ s[1:-1] }} {{ s[-3:] }} {{ s[100:] }}| {{ s[:100] }} {{ s[::3] }} {{ s[-1:0:-4] }}", "{{ (1, 2, 3)[1:] }} {{ range(10)[2:8:3] | list }} {{ range(5)[-1] }}", "{{ messages[1:][0].role }} {{ messages[-1]['role'] }} {{ messages[0].content[3:] }}",
        "{{ words[none:none] }} {{ words[true:3] }} {{ words[n:] }}", "{{ d.b is defined }} {{ d.z is defined }} {{ zz is defined }} {{ d.C.n.x is defined }}", "{{ words[10:0:-1] }} {{ words[-1:-5:-2] }} {{ words[1:100:1000] }} {{ words[-100::-1] }}",
        "{{ {'a.b': 1}['a.b'] }} {{ {1: 'one'}[1] }} {{ {1: 'one'}[true] }} {{ {'x': 1}[['x']] }}|", "{{ [1, 2].0 }} {{ 'abc'.2 }}", "{{ {'get': 5}.get is defined }} {{ {'get': 5}['get'] }}",
    ],
    "statements": [
        "{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}", "{% if no %}a{% elif no %}b{% elif yes %}c{% else %}d{% endif %}", "{% if missing %}a{% endif %}{% if empty %}b{% endif %}{% if s %}c{% endif %}{% if 0.0 %}d{% endif %}",
        "{% for w in words %}{{ w }},{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'añ🙂' %}[{{ c }}]{% endfor %}",
        "{% for x in empty %}x{% else %}none{% endfor %}{% for x in missing %}x{% else %}none{% endfor %}", "{% for x in [1, 2, 3, 4] if x % 2 %}{{ x }}{{ loop.index }}{{ loop.last }}{{ loop.length }} {% endfor %}",
        "{% for x in [1, 3] if x > 5 %}{{ x }}{% else %}E{% endfor %}", "{% for w in words %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}/{{ loop.revindex }}/{{ loop.revindex0 }} {% endfor %}",
        "{% for x in [1, 2, 3] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{% if not loop.last %},{% endif %}{% endfor %}", "{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{% endfor %}{{ loop.index }}|{% endfor %}",
        "{% for (a, b) in pairs %}{{ a }}{{ b }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
        "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}", "{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }} {{ ns }}",
        "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.c }}|{{ ns['a'] }}{% set ns.c = 3 %}{{ ns.c }}", "{% set a, b = 1, 'x' %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}{% set (e, f) = [3, 4] %}{{ e }}{{ f }}",
        "{% set x %}a{{ n }}b{% endset %}[{{ x }}]", "{% set x | upper | replace('A', 'z') %}a{{ n }}b{% endset %}[{{ x }}]", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}|", "{% filter upper %}abc {{ s }}{% endfilter %}",
        "{% filter replace('a', 'b') | trim %}  aaa  {% endfilter %}|", "{% if yes %}{% set x = 5 %}{% endif %}{{ x }}", "{% for i in [1] %}{% set q = 2 %}{% endfor %}{{ q }}|", "{% generation %}a{% set z = 1 %}{{ z }}{% endgeneration %}{{ z }}|",
        "{% set ns = namespace(found=false) %}{% for x in [1, 2, 3] if not ns.found %}{{ x }}{% if x == 2 %}{% set ns.found = true %}{% endif %}{% endfor %}", "{% set loop = 3 %}{{ loop }}{% for x in [1] %}{{ loop.index }}{% endfor %}{{ loop }}",
        "{% for x in [1, 2] %}{% set prev = loop.previtem %}{{ prev is defined }}{% endfor %}", "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}", "{% for m in messages %}{% if m.role == 'user' %}{{ m.content | trim }}{% elif m.tool_calls is defined %}{{ m.tool_calls | length }}{% endif %}{% endfor %}",
        "{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}", "{% if yes: %}x{% endif %}", "{% for w in words: %}{{ w[0] }}{% endfor %}", "{% set n = n + 1 %}{{ n }}",
    ],
    "macros": [
        "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=4, a=5) }} {{ m() }}|", "{% macro m(a) %}{{ a }}{% if a > 0 %}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% set g = 1 %}{% macro m() %}{{ g }}{% set g = 9 %}{{ g }}{% endmacro %}{{ m() }}{{ g }}",
        "{% macro m(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m(1) }}", "{% macro m() %}  a\n{% endmacro %}[{{ m() | trim }}]{{ m() ~ 'b' }}{{ m() is string }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(1) }}", "{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}",
        "{% if yes %}{% macro m() %}in{% endmacro %}{% endif %}{{ m() }}", "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro m(x) %}{% for i in x %}{{ loop.index }}{{ i }}{% endfor %}{% endmacro %}{% for z in [1] %}{{ m('ab') }}{{ loop.index }}{% endfor %}",
        "{% macro m(a) %}{% set ns = namespace(v='') %}{% for c in a %}{% set ns.v = c ~ ns.v %}{% endfor %}{{ ns.v }}{% endmacro %}{{ m('abc') }}",
    ],
    "filters": [
        "{{ '  x ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ s | trim('!🙂 G') }}", "{{ s | upper }} {{ s | lower }} {{ 'straße ŉ ΣΑΣ İ' | upper }} {{ 'ΑΣ ΣΑΣ İI' | lower }}", "{{ 'hello wORLD foo-bar (baz' | title }} {{ 'hELLO wORLD' | capitalize }} {{ 'ßa' | capitalize }}",
        "{{ words | length }} {{ s | length }} {{ d | length }} {{ words | count }} {{ missing | length }} {{ '' | length }}", "{{ words | join(', ') }} {{ [1, none, 2.0] | join('-') }} {{ words | join }} {{ messages | join('|', attribute='role') }} {{ 'abc' | join('.') }}",
        "{{ missing | default('d') }} {{ nil | default('d') }} {{ nil | default('d', true) }} {{ '' | d('e', boolean=true) }} {{ missing | default }}|", "{{ d | tojson }}", "{{ messages | tojson }}", "{{ d | tojson(indent=2) }}", "{{ d | tojson(indent=4, sort_keys=true) }}",
        "{{ s | tojson }} {{ s | tojson(ensure_ascii=true) }} {{ '\"\\\\/\\n\\t\\x01\\x7f</script>' | tojson }}", "{{ d | tojson(separators=(',', ':')) }} {{ [1, 2] | tojson(indent=none) }} {{ [[], {}] | tojson(indent=1) }} {{ [1] | tojson(indent=0) }} {{ [1] | tojson(indent='--') }}",
        "{{ 1.0 | tojson }} {{ true | tojson }} {{ none | tojson }} {{ (1, 2) | tojson }} {{ 1e100 | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}", "{{ words | first }} {{ words | last }} {{ empty | first }}| {{ empty | last }}| {{ 'abc' | first }} {{ d | first }} {{ d | last }}",
        "{{ words | sort }} {{ words | sort(reverse=true) }} {{ words | sort(case_sensitive=true) }} {{ messages | sort(attribute='role') | map(attribute='role') | list }}", "{{ [3, 1, 2] | sort }} {{ pairs | sort(attribute='1', reverse=true) }} {{ messages | sort(attribute='role,content') | map(attribute='content') | list }}",
        "{{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }}", "{{ d | items | list }} {{ missing | items | list }}", "{{ 'abc' | list }} {{ d | list }} {{ (1, 2) | list }} {{ range(3) | list }} {{ range(5, 1, -2) | list }} {{ range(0) | list }}",
        "{{ words | map('upper') | list }} {{ words | map('length') | list }} {{ messages | map(attribute='role') | join(',') }} {{ messages | map(attribute='tool_calls', default='-') | list }} {{ ['a b', 'c'] | map('replace', 'a', 'z') | list }}",
        "{{ [1, 2, 3, 4] | select('even') | list }} {{ [1, 2, 3] | reject('odd') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ [1, 5, 9] | select('gt', 4) | list }} {{ [1, 5] | select('in', [5]) | list }}", "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }} {{ messages | selectattr('tool_calls') | list | length }} {{ messages | rejectattr('role', '==', 'user') | list | length }} {{ messages | selectattr('tool_calls', 'defined') | first | length }}",
        "{{ words | unique | list }} {{ [1, 1.0, true, 2] | unique | list }} {{ words | unique(case_sensitive=true) | list }} {{ messages | unique(attribute='role') | list | length }}", "{{ words | reverse | list }} {{ 'añ🙂' | reverse }} {{ [3, 1] | min }} {{ [3, 1] | max }} {{ words | min }} {{ words | max }} {{ [] | max }}|",
        "{{ [1, 2, 3.5] | sum }} {{ [] | sum }} {{ pairs | sum(attribute=1) }} {{ [1] | sum(start=10) }}", "{{ 'a-b-c' | replace('-', '+') }} {{ 'a-b-c' | replace('-', '+', 1) }} {{ 'ab' | replace('', '.') }} {{ 5 | replace('5', 'x') }}",
        "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb' | indent('> ', first=true) }}", "{{ '42' | int }} {{ ' -7 ' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ '3.7' | int }} {{ nil | int }} {{ true | int }} {{ '1_000' | int }}",
        "{{ '1.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ '1e3' | float }} {{ ' inf ' | float }} {{ 'x' | float(2.0) }}", "{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42.55 | round(1, 'floor') }} {{ 42.51 | round(1, 'ceil') }} {{ 7 | round }} {{ -2.5 | round }}", "{{ -5 | abs }} {{ (-5) | abs }} {{ -2.5 | abs }} {{ true | abs }}",
        "{{ 5 | string }} {{ [1] | string }} {{ 5 | string | length }} {{ none | string }} {{ 1.0 | string }}", "{{ '<a & b>' | e }} {{ '<b>' | safe }} {{ ('<b>' | safe) + '<i>' }} {{ '<i>' + ('<b>' | safe) }} {{ ('<b>' | safe) ~ '<i>' }} {{ ('<b>' | e) | e }} {{ ['<' | safe] }} {{ ('<b> ' | safe | trim) + '&' }}",
        "{{ ('<a>' | safe).replace('a', '<') }} {{ ('<A>' | safe).lower() + '>' }} {{ ('a,b' | safe).split(',') }} {{ ('x' | safe) == 'x' }} {{ ('x' | safe) | tojson }}", "{{ '%s-%s' | format(1, 'b') }} {{ 'a' | center(5) }}|", "{{ [1, [2, {'a': 'x'}]] | tojson }} {{ words | tojson | length }}", "{{ [4, 5] | first + [6] | last }}",
        "{% set g = words | select('string') %}{{ g | list | length }}{{ g | list | length }}", "{{ words | map('first') | join }} {{ [[1, 2], [3]] | map('sum') | list }} {{ [{'a': {'b': 1}}] | map(attribute='a.b') | list }} {{ pairs | map(attribute=0) | list }} {{ pairs | map('last') | list }}",
    ],
    "tests": [
        "{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ n is not defined }} {{ nil is none }} {{ n is not none }} {{ missing is none }}", "{{ 'a' is string }} {{ 1 is string }} {{ d is mapping }} {{ [] is mapping }} {{ [] is sequence }} {{ 'a' is sequence }} {{ d is sequence }} {{ 1 is sequence }} {{ () is sequence }} {{ missing is sequence }}",
        "{{ [] is iterable }} {{ 'a' is iterable }} {{ d is iterable }} {{ 1 is iterable }} {{ nil is iterable }} {{ missing is iterable }} {{ (words | map('upper')) is iterable }} {{ (words | map('upper')) is sequence }}", "{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ 'a' is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ 1 is float }} {{ true is boolean }} {{ 1 is boolean }}",
        "{{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ none is false }}", "{{ 4 is even }} {{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 4 is even and 3 is odd }}", "{{ 1 is eq 1 }} {{ 1 is equalto 2 }} {{ 1 is ne 2 }} {{ 2 is gt 1 }} {{ 2 is lt(1) }} {{ 2 is ge 2 }} {{ 2 is le 1 }} {{ 2 is in [1, 2] }} {{ 3 is not in [1, 2] }} {{ 1 is greaterthan 0 }}",
        "{{ raise_exception is defined }} {{ raise_exception is callable }} {{ n is callable }} {{ range is callable }} {{ 'a'.upper is callable }}", "{{ nil is sameas none }} {{ yes is sameas true }} {{ 1 is sameas true }} {{ d is sameas d }}", "{{ 'x' if n is defined and n is number else 'y' }} {{ not n is defined }} {{ n is defined or m is defined }}", "{{ d.items() is mapping }} {{ d.items() is iterable }} {{ d.keys() is sequence }}", "{{ -1 is number }} {{ n - 1 is number }} {{ [1, 2] | first is number }} {{ n is defined == true }}",
    ],
    "methods": [
        "{{ ' a '.strip() }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'xyaxy'.strip('yx') }}|{{ '\\u3000a\\u00a0'.strip() }}|{{ 'añaña'.rstrip('ñ') }}|{{ '<x>\n'.strip('\n') }}", "{{ 'a b  c'.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c'.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ ' a  b '.split(maxsplit=1) }} {{ 'a</t>b'.split('</t>')[-1] }}",
        "{{ 'a,b,c'.rsplit(',', 1) }} {{ 'a,b,c'.rsplit(',') }} {{ 'a\nb\r\nc\u2028d'.splitlines() }} {{ 'a\n\nb\n'.splitlines(true) }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'a'.partition('=') }} {{ 'a'.rpartition('=') }}",
        "{{ 'hello'.startswith('he') }} {{ 'hello'.startswith(('x', 'he')) }} {{ 'hello'.startswith('l', 2) }} {{ 'hello'.endswith('lo') }} {{ 'hello'.endswith('l', 0, 4) }} {{ 'hello'.endswith(()) }} {{ ''.startswith('') }} {{ 'ab'.startswith('', 3) }} {{ 'ab'.startswith('', 2) }}", "{{ 'aXbX'.replace('X', '-') }} {{ 'aXbX'.replace('X', '-', 1) }} {{ 'abc'.replace('', '-') }} {{ 'é🙂'.replace('', '-') }} {{ 'aaa'.replace('aa', 'b') }}",
        "{{ s.upper() }} {{ s.lower() }} {{ 'ab cd'.title() }} {{ \"they're x2y\".title() }} {{ 'aB cD'.capitalize() }} {{ 'ǆ ß ﬁ'.title() }}", "{{ s.find('日') }} {{ s.find('z') }} {{ 'abcabc'.rfind('b') }} {{ 'abcabc'.index('c') }} {{ 'abcabc'.rindex('c') }} {{ 'abcabc'.find('c', 3) }} {{ 'abcabc'.find('a', -3, -1) }} {{ 'aaa'.count('a') }} {{ 'aaa'.count('aa') }} {{ 'aé'.count('') }}",
        "{{ ', '.join(['a', 'b']) }} {{ ''.join(words) }} {{ '-'.join('abc') }} {{ '.'.join(d) }}", "{{ '{} and {}'.format(1, 'b') }} {{ '{0}{1}{0}'.format('x', 'y') }} {{ '{a}{{}}'.format(a=none) }}", "{{ 'a'.center(4, '*') }} {{ 'ab'.center(5, '*') }} {{ 'a'.ljust(3, '.') }} {{ 'é'.rjust(3, '.') }} {{ '-5'.zfill(4) }} {{ '7'.zfill(3) }} {{ 'abc'.center(2) }}", "{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.py'.removesuffix('.py') }} {{ 'x'.removeprefix('y') }} {{ ' \t\u2003'.isspace() }} {{ ''.isspace() }}",
        "{{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 'def') }} {{ d.get(1) }}", "{{ d.keys() | list }} {{ d.values() | list | length }} {{ d.items() | list }} {{ {'a': 1}.items() }} {{ {'a': 1}.keys() }} {{ {'a': 1}.values() }} {{ d.copy().b }}", "{{ words.index('fig') }} {{ words.count('apple') }} {{ (1, 2, 1).count(1) }} {{ [1, 2].copy() }}",
        "{{ messages[0].content.strip().upper().split(' ')[0][:-1] }}", "{% set f = 'abc'.upper %}{{ f() }}", "{% for k, v in d.items() | list %}{{ k }}{% endfor %} {{ d.items() | first }} {{ d.items() | length }}", "{{ d['keys']() | list | length }} {{ 'abc'['upper']() }}",
    ],
    "functions": [
        "{{ range(3) }} {{ range(2, 5) }} {{ range(10)[3] }} {{ range(3) | sum }} {{ 2 in range(3) }} {{ range(3) == range(0, 3) }} {{ range(0) | length }}", "{{ dict(a=1, b='x') }} {{ dict({'a': 1}, b=2) }} {{ dict([('k', 1)]) }} {{ dict() }}", "{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%B %A %j %p %I %%') }}|{{ strftime_now('') }}|{{ strftime_now('%z%Z') }}", "{% if strftime_now is defined %}{{ strftime_now('%y') }}{% endif %}", "{% if no %}{{ raise_exception('x') }}{% endif %}ok",
    ],
    "errors": [
        "{{ raise_exception('Only user and assistant roles!') }}", "{{ raise_exception('é \"q\" ' ~ n) }}", "{{ missing.x }}", "{{ missing['x'] }}", "{{ d.z.y }}", "{{ messages[9].role }}", "{{ missing + 'a' }}", "{{ 'a' + missing }}", "{{ 'a' + 1 }}", "{{ 'a' + none }}", "{{ none + 'a' }}", "{{ 1 + 'a' }}", "{{ [1] + (2,) }}", "{{ d + d }}", "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ missing < 1 }}",
        "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ missing() }}", "{{ n() }}", "{{ d.z() }}", "{{ 'a'.nope() }}", "{{ words.append('x') }}", "{{ d.pop('b') }}", "{{ d.update({'x': 1}) }}", "{{ ''.__class__.x }}", "{{ ''.__class__ }}|ok", "{{ words.append }}|ok", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% set a, b = [1] %}",
        "{% set d.x = 1 %}", "{% set zz.x = 1 %}", "{{ 5 | length }}", "{{ none | length }}", "{{ (words | map('upper')) | length }}", "{{ missing | tojson }}", "{{ (words | map('upper')) | tojson }}", "{{ [1, 'a'] | sort }}", "{{ [1, 'a'] | max }}", "{{ 'a' in 5 }}", "{{ 1 in 'a' }}", "{{ none in 'a' }}", "{{ [1] in d }}", "{{ {[1]: 2} }}", "{{ 'abc'.split('') }}", "{{ ', '.join([1]) }}", "{{ 'a'.index('z') }}", "{{ words[::0] }}", "{{ nil[1:] }}", "{{ d[1:] }}", "{{ n[:1] }}", "{{ words[missing:] }}", "{{ words['a':] }}", "{{ missing[1:] }}", "{{ 1 > 'a' }}", "{{ 'a' >= none }}", "{{ [1] <= ['a'] }}", "{{ -'a' }}", "{{ not_a_macro(1) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
        "{% macro m(a) %}{% endmacro %}{{ m(c=1) }}", "{{ range() }}", "{{ range('a') }}", "{{ range(200000) }}", "{{ range(1, 2, 0) }}", "{{ 5 | items }}{{ 5 | items | list }}", "{{ missing | dictsort }}", "{{ '{} {}'.format(1) }}", "{{ '%d' % 'a' }}", "{{ '%s %s' % (1,) }}", "{{ '%s' % (1, 2) }}", "{{ missing is even }}", "{{ missing | int }}", "{{ missing | last }}", "{{ missing ~ missing.y }}", "{{ 0.0 ** -1 }}",
    ],
    "argument errors": [
        "{{ messages | selectattr('content', 'in') | list }}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{{ namespace(1) }}", "{{ 'a'.strip(1) }}", "{{ 'a' | upper(1) }}", "{{ 'a' is string(1) }}", "{{ d.get() }}", "{{ 'a'.split(1) }}", "{{ words | join(a=1) }}", "{{ 'a'.replace('b') }}",
        "{{ 'a'.startswith(1) }}", "{{ 'a'.startswith(none) }}", "{{ raise_exception() }}", "{{ strftime_now() }}", "{{ strftime_now(1) }}", "{{ dict(1) }}", "{{ dict([1]) }}", "{{ dict([(1, 2, 3)]) }}", "{{ 'a'.center(5, 'ab') }}", "{{ 5 | dictsort }}", "{{ d | dictsort(by='x') }}", "{{ words | map }}{{ words | map | list }}",
        "{{ words | selectattr | list }}", "{{ 1.5 | round(0, 'up') }}", "{{ 'a' | abs }}", "{{ ['a'] | sum }}", "{{ 5 | indent }}", "{{ 5 | map('upper') | list }}", "{{ 'a'.join(5) }}", "{{ 'a'.join([none]) }}", "{{ [[1]] | unique | list }}", "{{ 'a' * 2.0 }}", "{{ 'a' - 'b' }}", "{{ {'a': 1} | sort(attribute=none) | first + 1 }}", "{{ [1] * [2] }}",
    ],
    "syntax": [
        "{% if %}x{% endif %}", "{% if yes %}x", "{% for x in y %}", "{% endif %}", "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ [1 }}", "{{ {1: } }}", "{{ 'abc }}", "{{ a b }}", "{{ a. }}", "{{ a[ }}", "{% foo %}", "{% if yes %}{% endfor %}", "{% set %}", "{% set 1 = 2 %}", "{% set none = 2 %}", "{% for 1 in x %}{% endfor %}", "{{ a is }}", "{{ a | }}", "{{ f(a=1, 2) }}", "{# open", "{% raw %}x", "{{ 1 is defined is true }}", "{{ a ! b }}", "{{ ? }}", "{% break %}", "{% macro %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ '\\x4' }}", "{% else %}", "{{ ) }}", "{% if yes %}a{% else %}b{% else %}c{% endif %}", "{{ not }}", "{{ 1 if }}",
    ],
}

# Where the message must be jinja2's, too, not only that there is an error.
MESSAGES_COMPARED = ("access", "errors")


def main():
    env = environment()
    cases = []
    for group, snippets in SNIPPETS.items():
        for snippet in snippets:
            result = render(compile_template(env, snippet), VARIABLES)
            expected = {"output": result["output"]} if "output" in result else {"error": result["error"] if group in MESSAGES_COMPARED else True}
            cases.append({"group": group, "template": snippet, **expected})
    path = HERE / "chat" / "snippets.json"
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path.write_text('{"variables": ' + json.dumps(VARIABLES, ensure_ascii=False) + ',\n"cases": [\n' + lines + "\n]}\n")
    print(f"{path}: {len(cases)} cases, {sum('error' in case for case in cases)} of them errors")


main()
