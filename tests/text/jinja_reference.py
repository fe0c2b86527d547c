"""jinja2 set up as transformers does it for chat templates: the reference for Lynx's interpreter."""

import datetime
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

# What lynx_render_template takes for now.
NOW = datetime.datetime(2024, 7, 26, 14, 5, 9)


class Generation(jinja2.ext.Extension):
    """{% generation %} prints its body, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_print"), [], [], body).set_lineno(lineno)

    def _print(self, caller):
        return caller()


class TemplateDict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


class TemplateNamespace(jinja2.utils.Namespace):
    def __setitem__(self, name, value):
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError("underscore-prefixed attribute")
        jinja2.utils.Namespace.__setitem__(self, name, value)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    env.globals["dict"] = TemplateDict()
    env.globals["namespace"] = TemplateNamespace
    return env


def compile_template(env, template):
    """The template, or the exception that says why there is none."""
    try:
        return env.from_string(template)
    except Exception as error:
        return error


def render(compiled, variables):
    """{"output": text}, or {"error": message, "raised": whether it came from raise_exception}."""
    try:
        if isinstance(compiled, Exception):
            raise compiled
        output = compiled.render(**variables)
        output.encode()  # A lone surrogate is no text.
        return {"output": output}
    except Exception as error:  # jinja2 lets Python's own errors through.
        return {"error": str(error), "raised": type(error) is jinja2.exceptions.TemplateError}
