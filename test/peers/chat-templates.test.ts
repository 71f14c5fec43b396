import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import {
  jinja2Program,
  listConversationCases,
  type Rendering,
  renderCase,
  type TemplateCase,
} from "../support/chat-templates/template-cases.ts";
import { installJinja2 } from "../support/python-tools.ts";
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

test("Berth renders every template in llama.cpp's repository like Jinja2, and fails for none that Jinja2 can render", async () => {
  const cases = await readTemplates(temporaryFolder("templates"));
  const expected = await renderWithJinja2(cases);
  const differences = cases.flatMap((one, index) => {
    const reference = expected[index];
    if (reference === undefined || !("text" in reference)) return [];
    const rendering = renderCase(one);
    return "text" in rendering && rendering.text === reference.text
      ? []
      : [{ name: one.name, expected: reference.text, rendering }];
  });
  expect(differences).toEqual([]);
  // Jinja2 refuses some conversations, such as tools whose results a template does not allow.
  const rendered = expected.filter((reference) => "text" in reference).length;
  expect(cases).toHaveLength(350);
  expect(rendered).toBeGreaterThan(300);
});
