import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatBytes, parseFormattedBytes } from "../../../src/base/units.ts";
import { ProgressLines, progressBar, progressOf } from "../../../src/cli/output/progress.ts";

describe("progress on a terminal", () => {
  test("is read from the messages of pulls, and from nothing else", () => {
    expect(progressOf("deploying: pulling nginx:1.29 (30 MiB of 120 MiB)")).toBe(0.25);
    expect(progressOf("pulling nginx:1.29 (0 B of 1.5 GiB)")).toBe(0);
    expect(progressOf("pulling nginx:1.29 (2 GiB of 1 GiB)")).toBe(1);
    for (const other of [
      "running and healthy",
      "2 of 3 replicas",
      "(many of them)",
      "(1 MiB of 0 B)",
    ]) {
      expect(progressOf(other)).toBeUndefined();
    }
  });

  test("sizes come back as they were written, to a decimal", () => {
    fc.assert(
      fc.property(fc.nat(2 ** 40), (bytes) => {
        const back = parseFormattedBytes(formatBytes(bytes)) ?? Number.NaN;
        expect(Math.abs(back - bytes)).toBeLessThanOrEqual(Math.max(1, bytes * 0.06));
      }),
    );
  });

  test("the bar is always as wide", () => {
    expect(progressBar(0)).toBe(`[${"-".repeat(24)}]   0 %`);
    expect(progressBar(0.5)).toBe(`[${"#".repeat(12)}${"-".repeat(12)}]  50 %`);
    expect(progressBar(1)).toBe(`[${"#".repeat(24)}] 100 %`);
  });

  test("a bar is painted over; other lines stay, each on its own", () => {
    let out = "";
    const lines = new ProgressLines(
      (text) => {
        out += text;
      },
      (text) => text,
    );
    lines.show("web deploying: starts");
    lines.show("web deploying: pulling a:1 (0 B of 2 MiB)");
    lines.show("web deploying: pulling a:1 (1 MiB of 2 MiB)");
    lines.show("web running: running and healthy");
    lines.show("web deploying: pulling a:2 (1 MiB of 2 MiB)");
    lines.end();
    lines.end();
    expect(out.split("\n")).toEqual([
      "  web deploying: starts",
      `  ${progressBar(0)}  web deploying: pulling a:1 (0 B of 2 MiB)\r\u001b[K  ${progressBar(0.5)}  web deploying: pulling a:1 (1 MiB of 2 MiB)\r\u001b[K  web running: running and healthy`,
      `  ${progressBar(0.5)}  web deploying: pulling a:2 (1 MiB of 2 MiB)`,
      "",
    ]);
  });
});
