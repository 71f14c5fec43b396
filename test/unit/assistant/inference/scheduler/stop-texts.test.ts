import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { StopTexts } from "../../../../../src/assistant/inference/scheduler/stop-texts.ts";

describe("the filter for stop texts", () => {
  it("emits everything at once if there are no stop texts", () => {
    const stops = new StopTexts([]);
    expect(stops.push("any text")).toEqual({ text: "any text", stopped: false });
    expect(stops.flush()).toBe("");
  });

  it("holds back text that could become a stop text, and emits that text if it does not become one", () => {
    const stops = new StopTexts(["\n\nUser:"]);
    expect(stops.push("Yes.\n")).toEqual({ text: "Yes.", stopped: false });
    expect(stops.push("\nUs")).toEqual({ text: "", stopped: false });
    expect(stops.push("ually")).toEqual({ text: "\n\nUsually", stopped: false });
  });

  it("ends the answer before a stop text that arrives in three pieces", () => {
    const stops = new StopTexts(["</end>"]);
    const emitted = ["text </", "en", "d> more"].map((piece) => stops.push(piece));
    expect(emitted.map(({ text }) => text).join("")).toBe("text ");
    expect(emitted.at(-1)?.stopped).toBe(true);
  });

  it("emits the held text when the answer ends without a stop text", () => {
    const stops = new StopTexts(["stop"]);
    expect(stops.push("do not sto").text).toBe("do not ");
    expect(stops.flush()).toBe("sto");
  });

  it("finds a stop text whose prefix occurs again inside it", () => {
    expect(new StopTexts(["aab"]).push("xaaab")).toEqual({ text: "xa", stopped: true });
  });

  it("never splits a code point because of an incomplete stop text", () => {
    expect(new StopTexts(["\ude00"]).push("a😀b")).toEqual({ text: "a😀b", stopped: false });
  });

  it("has a constant cost per character for stop texts of any length", () => {
    const stops = new StopTexts([`${"a".repeat(100_000)}b`]);
    let emitted = 0;
    for (let piece = 0; piece < 2_000; piece += 1)
      emitted += stops.push("a".repeat(100)).text.length;
    expect(emitted).toBe(100_000);
  });

  it("gives the same result however the text is split", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 40 });
    const stop = fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(
        letters,
        fc.array(stop, { maxLength: 3 }),
        fc.array(fc.nat(6)),
        (text, list, cuts) => {
          const stops = new StopTexts(list);
          let emitted = "";
          let stopped = false;
          for (const piece of divided(text, cuts)) {
            const next = stops.push(piece);
            emitted += next.text;
            stopped = next.stopped;
            // No text may be emitted that later becomes part of a stop text.
            expect(expected(text, list).text.startsWith(emitted)).toBe(true);
            if (stopped) break;
          }
          if (!stopped) emitted += stops.flush();
          expect({ text: emitted, stopped }).toEqual(expected(text, list));
        },
      ),
      { numRuns: 2_000 },
    );
  });
});

/**
 * A reference implementation, which cuts the text before the longest stop text at the first position at which a stop
 * text ends.
 */
function expected(text: string, stops: readonly string[]): { text: string; stopped: boolean } {
  for (let end = 1; end <= text.length; end += 1) {
    const before = text.slice(0, end);
    const met = stops.filter((stop) => before.endsWith(stop)).map((stop) => stop.length);
    if (met.length > 0) return { text: text.slice(0, end - Math.max(...met)), stopped: true };
  }
  return { text, stopped: false };
}

function divided(text: string, sizes: readonly number[]): string[] {
  const pieces: string[] = [];
  let at = 0;
  for (const size of sizes) {
    pieces.push(text.slice(at, at + size));
    at += size;
  }
  return [...pieces, text.slice(at)];
}
