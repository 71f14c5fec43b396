"""Renders chat templates with Jinja2, in the environment in which transformers renders them.

Reads a list of cases, `{"template", "variables"}`, as JSON from standard input, and writes the list of the results,
`{"text"}` or `{"error"}`. With `--record FOLDER` it renders the templates, conversations and expressions of the folder,
and writes the results to `renderings.json` there.
"""

import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

# The time that strftime_now formats.
NOW = datetime.datetime(2025, 12, 24, 10, 11, 12)


class GenerationTag(jinja2.ext.Extension):
    """The tag around the text of an answer, which training marks and rendering ignores."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def create_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment


def render_all(cases):
    environment = create_environment()
    compiled = {}
    for case in cases:
        source = case["template"]
        try:
            if source not in compiled:
                compiled[source] = environment.from_string(source)
            yield {"text": compiled[source].render(**case["variables"])}
        except Exception as error:
            yield {"error": f"{type(error).__name__}: {error}"}


def record(folder):
    conversations = json.loads((folder / "conversations.json").read_text())
    expressions = json.loads((folder / "expressions.json").read_text())
    templates = {path.stem: path.read_text() for path in sorted(folder.glob("*.jinja"))}
    shared = {
        "enable_thinking": True,
        "add_generation_prompt": True,
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    renderings = {}
    for name, template in templates.items():
        cases = [
            {"template": template, "variables": {**variables, **shared}}
            for variables in conversations.values()
        ]
        renderings[name] = dict(zip(conversations, render_all(cases)))
    cases = [
        {"template": template, "variables": expressions["variables"]}
        for template in expressions["templates"]
    ]
    recorded = {
        "jinja2": jinja2.__version__,
        "templates": renderings,
        "expressions": dict(zip(expressions["templates"], render_all(cases))),
    }
    text = json.dumps(recorded, ensure_ascii=False, indent=2)
    (folder / "renderings.json").write_text(text + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        record(pathlib.Path(sys.argv[2]))
    else:
        json.dump(list(render_all(json.load(sys.stdin))), sys.stdout)
