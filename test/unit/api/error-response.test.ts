import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { httpStatusByErrorCode } from "../../../src/api/error-http-status.ts";
import { toErrorResponse } from "../../../src/api/error-response.ts";
import {
  BerthError,
  errorCodes,
  InvalidSpecError,
  NotFoundError,
} from "../../../src/base/errors.ts";

/** Returns the HTTP status of each error code in the table of docs/errors.md. */
async function documented(): Promise<Map<string, number>> {
  const text = await readFile(new URL("../../../docs/errors.md", import.meta.url), "utf8");
  const rows = [...text.matchAll(/^\| `([a-z_]+)` \| (\d{3}) \| (.+) \| (.+) \|$/gm)];
  for (const [row, , , meaning = "", remedy = ""] of rows) {
    expect([row, meaning.trim().length > 10, remedy.trim().length > 10]).toEqual([row, true, true]);
  }
  return new Map(rows.map(([, code = "", status]) => [code, Number(status)]));
}

const getMessage = (error: unknown) => toErrorResponse(error, "id").message;

describe("the codes of errors", () => {
  it("are exactly those in docs/errors.md, with their status", async () => {
    const table = await documented();
    expect([...table.keys()].toSorted()).toEqual([...errorCodes].toSorted());
    expect(Object.fromEntries(table)).toEqual(httpStatusByErrorCode);
  });

  it("are exactly those in the error table of the API", () => {
    expect(Object.keys(httpStatusByErrorCode).toSorted()).toEqual([...errorCodes].toSorted());
  });
});

describe("the response to an error", () => {
  it("contains the message, and the hint as a sentence", () => {
    expect(getMessage(new NotFoundError("there is no app", "see the list"))).toBe(
      "there is no app. See the list.",
    );
    expect(getMessage(new NotFoundError("really?", "yes!"))).toBe("really? Yes!");
    expect(getMessage(new NotFoundError("there is no app"))).toBe("there is no app");
  });

  it("lists all issues of a spec, up to twenty", () => {
    const issues = Array.from({ length: 25 }, (_, index) => ({
      path: `/spec/env/V${index}`,
      message: "is wrong",
    }));
    const { message, status } = toErrorResponse(
      new InvalidSpecError("App is not valid: spec.env.V0: is wrong (and 24 more)", issues),
      "id",
    );
    expect(status).toBe(400);
    expect(message).toContain("spec.env.V19: is wrong; and 5 more");
    expect(message).not.toContain("V20");
  });

  it("has a Retry-After header only for too many requests", () => {
    const details = { retryAfterSeconds: 7 };
    const busy = toErrorResponse(new BerthError("too_many_requests", "busy", { details }), "id");
    expect(busy).toMatchObject({ status: 429, headers: { "retry-after": "7" } });
    expect(
      toErrorResponse(new BerthError("conflict", "no", { details }), "id").headers,
    ).not.toHaveProperty("retry-after");
  });

  it("reveals nothing about unexpected errors", () => {
    for (const error of [new Error("/root/secret"), "text", null, undefined, { statusCode: 400 }]) {
      expect(toErrorResponse(error, "r-1")).toEqual({
        status: 500,
        message: "internal error, request id r-1",
        headers: { "x-error-code": "internal" },
        unexpected: true,
      });
    }
  });
});
