import fc from "fast-check";
import { expect, it } from "vitest";
import { codePointPieces } from "../../../../../src/assistant/inference/bus/session-pipe.ts";

it("text is split into pieces of limited size without cutting code points or losing bytes", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme", maxLength: 200 }),
      fc.integer({ min: 4, max: 40 }),
      (text, bytesMax) => {
        const pieces = [...codePointPieces(text, bytesMax)];
        const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
        expect(pieces.map((piece) => decoder.decode(piece)).join("")).toBe(text);
        for (const piece of pieces) {
          expect(piece.length).toBeGreaterThan(0);
          expect(piece.length).toBeLessThanOrEqual(bytesMax);
        }
      },
    ),
  );
});
