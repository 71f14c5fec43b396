import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatBytes, parseFormattedBytes } from "../../../src/base/units.ts";
import { displayWidth } from "../../../src/cli/output/display-width.ts";
import {
  formatProgressBar,
  ProgressLines,
  parseProgress,
} from "../../../src/cli/output/progress-lines.ts";
import {
  formatTransferLine,
  TransferProgress,
  type TransferState,
} from "../../../src/cli/output/transfer-progress.ts";

/** Returns the text that a terminal shows during a pull. */
function showPull(columns: number, amount: string): string {
  let out = "";
  const write = (text: string) => (out += text);
  const lines = new ProgressLines({ write, dim: (text) => text, columns: () => columns });
  lines.show(`shop deploying: pulling registry.example.org/team/shop:1.29 (${amount})`);
  return out;
}

test("parseFormattedBytes reads the sizes that formatBytes writes, except for the rounding to one decimal", () => {
  fc.assert(
    fc.property(fc.nat(2 ** 40), (bytes) => {
      const back = parseFormattedBytes(formatBytes(bytes)) ?? Number.NaN;
      expect(Math.abs(back - bytes)).toBeLessThanOrEqual(Math.max(1, bytes * 0.06));
    }),
  );
});

describe("progress on a terminal", () => {
  test("is parsed only from the progress messages of image pulls", () => {
    expect(parseProgress("deploying: pulling nginx:1.29 (30 MiB of 120 MiB)")).toBe(0.25);
    expect(parseProgress("pulling nginx:1.29 (0 B of 1.5 GiB)")).toBe(0);
    expect(parseProgress("pulling nginx:1.29 (2 GiB of 1 GiB)")).toBe(1);
    for (const other of [
      "running and healthy",
      "2 of 3 replicas",
      "(many of them)",
      "(1 MiB of 0 B)",
    ]) {
      expect(parseProgress(other)).toBeUndefined();
    }
  });

  test("is a bar of constant width", () => {
    expect(formatProgressBar(0)).toBe(`[${"-".repeat(24)}]   0 %`);
    expect(formatProgressBar(0.5)).toBe(`[${"#".repeat(12)}${"-".repeat(12)}]  50 %`);
    expect(formatProgressBar(1)).toBe(`[${"#".repeat(24)}] 100 %`);
  });

  test("is truncated to the terminal's width, so that it can be overwritten, and keeps its bar", () => {
    expect(showPull(80, "9.9 MiB of 120 MiB")).toBe(
      `  ${formatProgressBar(9.9 / 120)}  shop deploying:… (9.9 MiB of 120 MiB)`,
    );
    expect(showPull(80, "10 MiB of 120 MiB").indexOf("(")).toBe(
      showPull(80, "100.1 MiB of 120 MiB").indexOf("("),
    );
    expect(showPull(40, "60 MiB of 120 MiB")).toBe("  [######------]  50 %  shop deploying…");
    for (const columns of [10, 20, 40, 59, 60, 80, 200])
      expect(displayWidth(showPull(columns, "100.1 MiB of 120 MiB"))).toBeLessThan(columns);
  });

  test("is overwritten by the next bar; other lines stay, each on its own line", () => {
    let out = "";
    const lines = new ProgressLines({
      write: (text) => (out += text),
      dim: (text) => text,
      columns: () => 90,
    });
    lines.show("web deploying: starts");
    lines.show("web deploying: pulling a:1 (0 B of 2 MiB)");
    lines.show("web deploying: pulling a:1 (1 MiB of 2 MiB)");
    lines.show("web running: running and healthy");
    lines.show("web deploying: pulling a:2 (1 MiB of 2 MiB)");
    lines.end();
    lines.end();
    expect(out.split("\n")).toEqual([
      "  web deploying: starts",
      `  ${formatProgressBar(0)}  web deploying: pulling a:1 (0 B of 2 MiB)\r\u001b[K  ${formatProgressBar(0.5)}  web deploying: pulling a:1 (1 MiB of 2 MiB)\r\u001b[K  web running: running and healthy`,
      `  ${formatProgressBar(0.5)}  web deploying: pulling a:2 (1 MiB of 2 MiB)`,
      "",
    ]);
  });
});

const MIB = 1024 * 1024;
const half: TransferState = {
  label: "small",
  activity: "downloading ...",
  doneBytes: 2 * MIB,
  totalBytes: 4 * MIB,
  bytesPerSecond: MIB,
};

/** Returns the output of a transfer that starts, progresses, is interrupted and continues. */
function shown(isTerminal: boolean): string {
  let out = "";
  let nowMs = 0;
  const progress = new TransferProgress({
    write: (text) => (out += text),
    isTerminal,
    columns: () => 100,
    nowMs: () => nowMs,
    dim: (text) => text,
  });
  const at = (timeMs: number, rest: Partial<TransferState>) => {
    nowMs = timeMs;
    progress.show({ ...half, ...rest });
  };
  const asking = { activity: "asking ...", doneBytes: 0, totalBytes: null, bytesPerSecond: null };
  at(0, asking);
  at(100, asking);
  at(200, {});
  at(400, { doneBytes: 3 * MIB });
  progress.printLine("cut off\u001b[2J; once more");
  at(5_300, { doneBytes: 3 * MIB, bytesPerSecond: null });
  progress.end();
  return out;
}

describe("the progress of a transfer", () => {
  test.each([
    [100, "small  [############------------]   50 %  2 MiB of 4 MiB  1 MiB/s  2s left"],
    [80, "small  [######------]   50 %  2 MiB of 4 MiB  1 MiB/s  2s left"],
    [60, "small  [######------]   50 %  1 MiB/s  2s left"],
    [41, "small  [######------]   50 %  2s left"],
    [25, "small   50 %  2s left"],
    [20, "small   50 %"],
    [9, "small  …"],
  ])("is printed in at most %i columns", (columns, line) => {
    expect(formatTransferLine(half, columns)).toBe(line);
  });

  test("keeps the width of its bar and its columns while the numbers change", () => {
    const totalBytes = 3.5 * 1024 * MIB;
    for (const columns of [80, 40])
      fc.assert(
        fc.property(fc.nat(totalBytes), fc.nat(2 ** 31), (doneBytes, bytesPerSecond) => {
          const line = formatTransferLine(
            { ...half, label: "qwen3-4b", totalBytes, doneBytes, bytesPerSecond },
            columns,
          );
          const bar = /\[[#-]*\]/.exec(line)?.[0].length ?? 0;
          expect(bar).toBe(14);
        }),
      );
  });

  test("is printed in a line that is always shorter than the terminal is wide", () => {
    fc.assert(
      fc.property(
        fc.record({
          label: fc.string({ unit: "grapheme", minLength: 1 }),
          activity: fc.constantFrom("asking the source ...", "loading ..."),
          doneBytes: fc.nat(2 ** 40),
          totalBytes: fc.option(fc.nat(2 ** 40)),
          bytesPerSecond: fc.option(fc.nat(2 ** 31)),
        }),
        fc.integer({ min: 2, max: 200 }),
        (transfer, columns) => {
          const line = formatTransferLine(transfer, columns);
          expect(displayWidth(line)).toBeLessThan(columns);
          expect(line).not.toMatch(/NaN|Infinity|undefined|null/);
        },
      ),
    );
  });

  test("is overwritten on a terminal, and other printed lines stay", () => {
    const again = "\r\u001b[K";
    expect(shown(true)).toBe(
      [
        `small  asking ...${again}`,
        `${formatTransferLine(half, 100)}${again}`,
        "small  [##################------]   75 %  3 MiB of 4 MiB  1 MiB/s  1s left",
        `${again}cut off?[2J; once more\n`,
        "small  [##################------]   75 %  3 MiB of 4 MiB\n",
      ].join(""),
    );
  });

  test("without a terminal is printed in a new line every few seconds and at each new step", () => {
    expect(shown(false)).toBe(
      [
        "small: asking ...\n",
        "small: 50 %, 2 MiB of 4 MiB, 1 MiB/s, 2s left\n",
        "cut off?[2J; once more\n",
        "small: 75 %, 3 MiB of 4 MiB\n",
      ].join(""),
    );
  });
});
