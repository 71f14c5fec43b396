import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { checkFirewall } from "../../../src/cli/doctor/check-firewall.ts";

const folder = mkdtempSync(join(tmpdir(), "berth-ufw-"));
afterAll(() => rmSync(folder, { recursive: true }));

function found(text: string) {
  const file = join(folder, "ufw.conf");
  writeFileSync(file, text);
  return checkFirewall(file);
}

it("berth doctor explains the effect of an active firewall on apps with models", () => {
  expect(found("# set to yes to start on boot\nENABLED=yes\nLOGLEVEL=low\n")).toEqual([
    {
      check: "firewall",
      state: "ok",
      message: expect.stringContaining("docs/models-for-apps.md"),
    },
  ]);
});

it.each(["ENABLED=no\n", "# ENABLED=yes\n", ""])(
  "berth doctor reports nothing for an inactive firewall: %j",
  (text) => {
    expect(found(text)).toEqual([]);
  },
);

it("berth doctor reports nothing without a firewall", () => {
  expect(checkFirewall(join(folder, "none"))).toEqual([]);
});
