import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { errorAnswer } from "../../../src/api/error-answer.ts";
import { errorTable } from "../../../src/api/error-table.ts";
import {
  BerthError,
  errorCodes,
  InvalidSpecError,
  NotFoundError,
} from "../../../src/base/errors.ts";

/** Code to status, from the table in docs/errors.md. */
async function documented(): Promise<Map<string, number>> {
  const text = await readFile(new URL("../../../docs/errors.md", import.meta.url), "utf8");
  const rows = [...text.matchAll(/^\| `([a-z_]+)` \| (\d{3}) \| (.+) \| (.+) \|$/gm)];
  for (const [row, , , meaning = "", remedy = ""] of rows) {
    expect([row, meaning.trim().length > 10, remedy.trim().length > 10]).toEqual([row, true, true]);
  }
  return new Map(rows.map(([, code = "", status]) => [code, Number(status)]));
}

const textOf = (error: unknown) => errorAnswer(error, "id").message;

describe("the codes of errors", () => {
  it("are all in docs/errors.md with their status, and no others are", async () => {
    const table = await documented();
    expect([...table.keys()].toSorted()).toEqual([...errorCodes].toSorted());
    expect(Object.fromEntries(table)).toEqual(errorTable);
  });

  it("are all in the error table, and no others are", () => {
    expect(Object.keys(errorTable).toSorted()).toEqual([...errorCodes].toSorted());
  });
});

describe("the answer to an error", () => {
  it("is the message with the hint as a sentence", () => {
    expect(textOf(new NotFoundError("there is no app", "see the list"))).toBe(
      "there is no app. See the list.",
    );
    expect(textOf(new NotFoundError("really?", "yes!"))).toBe("really? Yes!");
    expect(textOf(new NotFoundError("there is no app"))).toBe("there is no app");
  });

  it("names every issue of a spec, up to twenty", () => {
    const issues = Array.from({ length: 25 }, (_, index) => ({
      path: `/spec/env/V${index}`,
      message: "is wrong",
    }));
    const { message, status } = errorAnswer(
      new InvalidSpecError("App is not valid: spec.env.V0: is wrong (and 24 more)", issues),
      "id",
    );
    expect(status).toBe(400);
    expect(message).toContain("spec.env.V19: is wrong; and 5 more");
    expect(message).not.toContain("V20");
  });

  it("says when to come back after too many requests, and only then", () => {
    const details = { retryAfterSeconds: 7 };
    const busy = errorAnswer(new BerthError("too_many_requests", "busy", { details }), "id");
    expect(busy).toMatchObject({ status: 429, headers: { "retry-after": "7" } });
    expect(
      errorAnswer(new BerthError("conflict", "no", { details }), "id").headers,
    ).not.toHaveProperty("retry-after");
  });

  it("says nothing of what was not expected", () => {
    for (const error of [new Error("/root/secret"), "text", null, undefined, { statusCode: 400 }]) {
      expect(errorAnswer(error, "r-1")).toEqual({
        status: 500,
        message: "internal error, request id r-1",
        headers: {},
        unexpected: true,
      });
    }
  });
});
