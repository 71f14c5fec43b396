import { Type } from "typebox";
import { describe, expect, it } from "vitest";
import { LazyValidator } from "../../../src/base/json-validator.ts";

const schema = Type.Object(
  { name: Type.String({ minLength: 2 }), port: Type.Integer({ maximum: 65_535 }) },
  { additionalProperties: false },
);

describe("a lazy validator", () => {
  it("accepts exactly the values that match its schema", () => {
    const shape = new LazyValidator<{ name: string; port: number }>(schema);
    expect(shape.errors).toEqual([]);
    expect(shape.isValid({ name: "web", port: 80 })).toBe(true);
    expect(shape.errors).toEqual([]);
    for (const value of [null, "web", {}, { name: "web" }, { name: "web", port: "80" }])
      expect(shape.isValid(value)).toBe(false);
  });

  it("reports the first error, or all errors on request", () => {
    const wrong = { name: "w", port: 70_000, more: true };
    const faults = (shape: LazyValidator<unknown>) => {
      expect(shape.isValid(wrong)).toBe(false);
      return shape.errors.map(({ keyword }) => keyword);
    };
    expect(faults(new LazyValidator(schema))).toHaveLength(1);
    expect(faults(new LazyValidator(schema, { allErrors: true })).toSorted()).toEqual([
      "additionalProperties",
      "maximum",
      "minLength",
    ]);
  });

  it("does not change the given schema", () => {
    const before = JSON.stringify(schema);
    new LazyValidator(schema).isValid({});
    expect(JSON.stringify(schema)).toBe(before);
  });
});
