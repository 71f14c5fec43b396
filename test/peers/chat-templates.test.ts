import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import {
  isComparable,
  jinja2Program,
  listConversationCases,
  listGeneratedCases,
  type Rendering,
  renderCase,
  type TemplateCase,
} from "../support/chat-templates/template-cases.ts";
import { installJinja2 } from "../support/python-tools.ts";
import { SEED } from "../support/sampling.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

/**
 * The bundle contains llama.cpp's repository at the commit that node-llama-cpp uses, with the chat templates of many
 * models.
 */
const bundle = join(
  import.meta.dirname,
  "../../node_modules/node-llama-cpp/llama/gitRelease.bundle",
);
const run = promisify(execFile);

async function readTemplates(folder: string): Promise<readonly TemplateCase[]> {
  const repository = join(folder, "llama.cpp");
  await run("git", ["clone", "--quiet", "--no-checkout", bundle, repository]);
  await run("git", ["-C", repository, "checkout", "--quiet", "HEAD", "--", "models/templates"]);
  const templates = join(repository, "models/templates");
  const names = (await readdir(templates)).filter((name) => name.endsWith(".jinja"));
  return names.toSorted().flatMap((name) => listConversationCases(join(templates, name)));
}

async function renderWithJinja2(cases: readonly TemplateCase[]): Promise<readonly Rendering[]> {
  const python = join(await installJinja2(), "python3");
  const child = run(python, [jinja2Program], { maxBuffer: 1 << 28 });
  child.child.stdin?.end(JSON.stringify(cases));
  const renderings: readonly Rendering[] = JSON.parse((await child).stdout);
  return renderings;
}

/** Returns the cases that Jinja2 renders and Berth does not render equally. */
function findDifferences(cases: readonly TemplateCase[], expected: readonly Rendering[]) {
  return cases.flatMap((one, index) => {
    const reference = expected[index];
    if (reference === undefined || !isComparable(reference)) return [];
    const rendering = renderCase(one);
    return "text" in rendering && rendering.text === reference.text
      ? []
      : [{ name: one.name, expected: reference.text, rendering }];
  });
}

test("every template of llama.cpp renders what Jinja2 renders, and none that Jinja2 renders fails", async () => {
  const cases = await readTemplates(temporaryFolder("templates"));
  const expected = await renderWithJinja2(cases);
  expect(findDifferences(cases, expected)).toEqual([]);
  // Jinja2 refuses some conversations, such as tools whose results a template does not allow.
  const rendered = expected.filter((reference) => "text" in reference).length;
  expect(cases).toHaveLength(350);
  expect(rendered).toBeGreaterThan(300);
});

test("generated templates render what Jinja2 renders, and none that Jinja2 renders fails", async () => {
  process.stdout.write(`BERTH_SEED=${SEED}\n`);
  const cases = listGeneratedCases(SEED, 1_500);
  const expected = await renderWithJinja2(cases);
  expect(findDifferences(cases, expected), `BERTH_SEED=${SEED}`).toEqual([]);
  // Random operands do not fit some operators, and a quarter of the templates are damaged on purpose.
  expect(expected.filter((reference) => "text" in reference).length).toBeGreaterThan(1_500);
});
