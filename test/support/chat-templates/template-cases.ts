import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { CompiledTemplate } from "../../../src/assistant/inference/prompts/compiled-template.ts";
import { Dice } from "../random.ts";
import { generatedVariables, generateExpression } from "./generated-expressions.ts";
import { TemplateGenerator } from "./generated-templates.ts";

/** The text that a template renders, or its error. */
export type Rendering = { readonly text: string } | { readonly error: string };
type Variables = Readonly<Record<string, unknown>>;

export interface TemplateCase {
  readonly name: string;
  readonly template: string;
  readonly variables: Variables;
}

const folder = join(import.meta.dirname, "../../fixtures/chat-templates");

/** The program that renders templates with Jinja2. */
export const jinja2Program = join(import.meta.dirname, "render_with_jinja2.py");

/** The five conversations with which each template is rendered. */
const conversations: Readonly<Record<string, Variables>> = JSON.parse(
  readFixture("conversations.json"),
);

/** The renderings of Jinja2; `render_with_jinja2.py --record` writes them. */
const recorded: {
  readonly templates: Readonly<Record<string, Readonly<Record<string, Rendering>>>>;
  readonly expressions: Readonly<Record<string, Rendering>>;
} = JSON.parse(readFixture("renderings.json"));

/** Returns the cases of one template: one for each conversation. */
export function listConversationCases(path: string): readonly TemplateCase[] {
  const template = readFileSync(path, "utf8");
  return Object.entries(conversations).map(([name, variables]) => ({
    name: `${basename(path, ".jinja")}, ${name}`,
    template,
    variables: {
      ...variables,
      // Berth sets this variable to true by default. A template sees the variable only if it is set.
      enable_thinking: true,
      add_generation_prompt: true,
      bos_token: "<s>",
      eos_token: "</s>",
    },
  }));
}

/** Returns the cases that are recorded, with the renderings of Jinja2. */
export function listRecordedCases(): readonly (TemplateCase & { readonly expected: Rendering })[] {
  const ofTemplates = Object.entries(recorded.templates).flatMap(([name, renderings]) =>
    listConversationCases(join(folder, `${name}.jinja`)).map((one, index) => ({
      ...one,
      expected: Object.values(renderings)[index] ?? { error: "it was not recorded" },
    })),
  );
  const { variables }: { readonly variables: Variables } = JSON.parse(
    readFixture("expressions.json"),
  );
  const ofExpressions = Object.entries(recorded.expressions).map(([template, expected]) => ({
    name: template,
    template,
    variables,
    expected,
  }));
  return [...ofTemplates, ...ofExpressions];
}

/** Returns twice `count` generated cases: templates, and templates of one expression. */
export function listGeneratedCases(seed: number, count: number): readonly TemplateCase[] {
  const dice = new Dice(seed);
  const generator = new TemplateGenerator(dice);
  const templates = Array.from({ length: count }, () => generator.generate());
  const expressions = Array.from({ length: count }, () => {
    const context = { isInLoop: false, macros: [] };
    return `{{ ${generateExpression(dice, "any", context, dice.between(1, 2))} }}`;
  });
  return [...templates, ...expressions].map((template) => ({
    name: template,
    template,
    variables: generatedVariables,
  }));
}

/** Returns true for a text without addresses of memory, which Python prints for functions and generators. */
export function isComparable(rendering: Rendering): rendering is { readonly text: string } {
  return "text" in rendering && !/ at 0x| object at |<built-in|<bound method/i.test(rendering.text);
}

/** The time that `render_with_jinja2.py` formats too. */
const NOW = Date.UTC(2025, 11, 24, 10, 11, 12);

export function renderCase({ template, variables }: TemplateCase): Rendering {
  try {
    return { text: CompiledTemplate.compile(template).render(variables, NOW) };
  } catch (error) {
    return { error: String(error) };
  }
}

function readFixture(name: string): string {
  return readFileSync(join(folder, name), "utf8");
}
