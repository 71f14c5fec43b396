import { describe, expect, test } from "vitest";
import { CompiledTemplate } from "../../../../../src/assistant/inference/prompts/compiled-template.ts";
import {
  listRecordedCases,
  renderCase,
} from "../../../../support/chat-templates/template-cases.ts";

const render = (template: string, variables = {}) =>
  CompiledTemplate.compile(template).render(variables, 0);

describe("a template is rendered as Jinja2 has rendered it", () => {
  test.each(listRecordedCases().map((one) => [one.name, one] as const))(
    "in the recorded case %s",
    (_, one) => {
      const rendering = renderCase(one);
      if ("text" in one.expected) expect(rendering).toEqual(one.expected);
      else expect(rendering).toHaveProperty("error");
    },
  );
});

describe("a template of a model file", () => {
  test("can change its lists, which Jinja2's sandbox refuses but some publishers need", () => {
    const template =
      "{% set ids = [1, 2] %}{% set _ = ids.append(3) %}{% set first = ids.pop(0) %}{{ first }} {{ ids }}";
    expect(render(template)).toBe("1 [2, 3]");
  });

  test("does not change the variables of the request", () => {
    const variables = { list: [1] };
    expect(render("{% set _ = list.append(2) %}{{ list }}", variables)).toBe("[1, 2]");
    expect(variables).toEqual({ list: [1] });
  });

  test("has no access to JavaScript's own members", () => {
    for (const name of ["constructor", "__proto__", "prototype", "toString"]) {
      expect(render(`{{ x.${name} is defined }}{{ x['${name}'] is defined }}`, { x: {} })).toBe(
        "FalseFalse",
      );
      expect(render(`{{ '${name}' | length }}{{ 'a'['${name}'] is defined }}`)).toContain("False");
    }
  });

  test("cannot make texts and lists of any size", () => {
    for (const template of ["{{ 'x' * 2000000 }}", "{{ [1] * 2000000 }}", "{{ range(200000) }}"]) {
      expect(() => render(template)).toThrow(/more than/);
    }
    expect(() => render("{{ '%99999999s' % 'x' }}")).toThrow(/more than/);
  });

  test("refuses a request that replaces a function of the language", () => {
    expect(() => render("{{ range(2) }}", { range: 1 })).toThrow('"range" is reserved');
  });
});
