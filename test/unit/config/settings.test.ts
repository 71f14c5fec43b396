import { describe, expect, it } from "vitest";
import { assistantSettings } from "../../../src/config/assistant-settings.ts";
import { serverSettings } from "../../../src/config/server-settings.ts";

const toFlag = (name: string) =>
  `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

describe.each([
  ["server", serverSettings],
  ["assistant", assistantSettings],
])("the settings of the %s", (_, settings) => {
  const rows = Object.entries(settings);

  it("are named like their flags, in camel case", () => {
    for (const [name, { flag }] of rows) expect(flag).toBe(toFlag(name));
  });

  it("have a help text that names their variable", () => {
    const withoutVariable = rows.filter(([, { help, variable }]) => !help.includes(variable));
    expect(withoutVariable).toEqual([]);
  });
});
