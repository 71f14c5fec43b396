import { Type } from "typebox";
import { describe, expect, it } from "vitest";
import { Shape } from "../../../src/base/shape.ts";

const schema = Type.Object(
  { name: Type.String({ minLength: 2 }), port: Type.Integer({ maximum: 65_535 }) },
  { additionalProperties: false },
);

describe("a shape", () => {
  it("is fitted by what its schema takes, and by nothing else", () => {
    const shape = new Shape<{ name: string; port: number }>(schema);
    expect(shape.errors).toEqual([]);
    expect(shape.fits({ name: "web", port: 80 })).toBe(true);
    expect(shape.errors).toEqual([]);
    for (const value of [null, "web", {}, { name: "web" }, { name: "web", port: "80" }])
      expect(shape.fits(value)).toBe(false);
  });

  it("says what is wrong first, or all of it", () => {
    const wrong = { name: "w", port: 70_000, more: true };
    const faults = (shape: Shape<unknown>) => {
      expect(shape.fits(wrong)).toBe(false);
      return shape.errors.map(({ keyword }) => keyword);
    };
    expect(faults(new Shape(schema))).toHaveLength(1);
    expect(faults(new Shape(schema, { allErrors: true })).toSorted()).toEqual([
      "additionalProperties",
      "maximum",
      "minLength",
    ]);
  });

  it("changes nothing in the schema that it was given", () => {
    const before = JSON.stringify(schema);
    new Shape(schema).fits({});
    expect(JSON.stringify(schema)).toBe(before);
  });
});
