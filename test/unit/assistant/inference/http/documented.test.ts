import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import {
  AssistantError,
  assistantErrorCodes,
} from "../../../../../src/assistant/assistant-error.ts";
import { busErrorTable } from "../../../../../src/assistant/bus/bus-error-table.ts";
import { dataClasses } from "../../../../../src/assistant/data-class.ts";
import { chatParameters } from "../../../../../src/assistant/inference/http/chat-request.ts";
import { completionParameters } from "../../../../../src/assistant/inference/http/completion-request.ts";
import { embeddingParameters } from "../../../../../src/assistant/inference/http/embedding-request.ts";
import { inferenceErrorTable } from "../../../../../src/assistant/inference/http/inference-error-table.ts";
import {
  ignoredParameters,
  refusedByRoute,
  refusedParameters,
} from "../../../../../src/assistant/inference/http/unknown-parameters.ts";
import { getFallbackCode } from "../../../../../src/assistant/inference/routing/routed-inference.ts";

const docs = new URL("../../../../../docs/", import.meta.url);
const read = (name: string) => readFile(new URL(name, docs), "utf8");

/** Returns the names in backticks of a text, without the part after a colon or a dot. */
function namesIn(text: string): Set<string> {
  return new Set([...text.matchAll(/`([a-z_]+)`/g)].map(([, name = ""]) => name));
}

/** Returns the text from a heading to the next one. */
async function section(heading: string): Promise<string> {
  const text = await read("inference-api.md");
  const start = text.indexOf(`\n${heading}\n`);
  expect(start).toBeGreaterThan(0);
  return text.slice(start + heading.length + 2).split(/^#+ /m)[0] ?? "";
}

describe("docs/assistant-errors.md", () => {
  test("lists every code with its HTTP status, and no others", async () => {
    const text = await read("assistant-errors.md");
    const rows = [
      ...text.matchAll(
        /^\| `([a-z_]+)` \| (\d{3}) \| `([\w.]+)` \| ([^|]{20,}) \| ([^|]{10,}) \|$/gm,
      ),
    ];
    const statuses = rows.map(([, code = "", status]) => [code, Number(status)] as const);
    const codes = statuses.map(([code]) => code);
    expect(codes).toEqual([...assistantErrorCodes]);
    expect(Object.fromEntries(statuses)).toEqual(
      Object.fromEntries(
        Object.entries(inferenceErrorTable).map(([code, row]) => [code, row.status]),
      ),
    );
  });

  test("lists the D-Bus error name of every code", async () => {
    const text = await read("assistant-errors.md");
    const rows = [...text.matchAll(/^\| `([a-z_]+)` \| \d{3} \| `([\w.]+)` \|/gm)];
    const names = rows.map(([, code = "", name = ""]) => [
      code,
      name.replace(/^DBus\./, "org.freedesktop.DBus."),
    ]);
    expect(Object.fromEntries(names)).toEqual(busErrorTable);
  });

  test.each([inferenceErrorTable, busErrorTable])(
    "has a row in the table for every code, and no row without a code",
    (table) => {
      expect(Object.keys(table).toSorted()).toEqual([...assistantErrorCodes].toSorted());
    },
  );
});

describe("docs/inference-api.md", () => {
  test("lists every supported parameter, and no others", async () => {
    const rows = (await section("### Supported parameters"))
      .split("\n")
      .filter((line) => line.startsWith("| `"))
      .map((line) => line.split("|").map((cell) => cell.trim()));
    const documented = (route: string) =>
      new Set(
        rows
          .filter(([, , where = ""]) => where === "all" || where.split(", ").includes(route))
          .flatMap(([, names = ""]) => [...namesIn(names)]),
      );
    // The document lists `modalities` under "Ignored", because Berth ignores the value `["text"]` and refuses all
    // others.
    expect(documented("chat").add("modalities")).toEqual(new Set(chatParameters));
    expect(documented("completions")).toEqual(new Set(completionParameters));
    expect(documented("embeddings")).toEqual(new Set(embeddingParameters));
  });

  test("lists the data classes that need consent", async () => {
    const supported = await section("### Supported parameters");
    const row = supported.split("\n").find((line) => line.startsWith("| `svc_scopes`")) ?? "";
    const scopes = [...namesIn(row)].filter((name) => name !== "svc_scopes");
    expect(scopes).toEqual(dataClasses.filter((scope) => scope !== "prompt"));
  });

  test("lists every error after which the next model of an alias is tried", async () => {
    const text = await section("### Aliases");
    const list = /one of these errors:\s([^.]+)\./.exec(text.replaceAll("\n", " "))?.[1] ?? "";
    const goesOn = assistantErrorCodes.filter((code) =>
      getFallbackCode(new AssistantError(code, "")),
    );
    expect([...namesIn(list)].toSorted()).toEqual(goesOn.toSorted());
  });

  test("lists every parameter that is ignored", async () => {
    const names = namesIn(await section("### Ignored parameters"));
    expect(ignoredParameters.filter((name) => !names.has(name))).toEqual([]);
  });

  test("lists every parameter that is refused, and no others", async () => {
    const rows = (await section("### Refused parameters"))
      .split("\n")
      .filter((line) => line.startsWith("|"));
    const first = rows.map((row) => row.split("|")[1] ?? "");
    const names = namesIn(first.join("\n"));
    names.delete("modalities");
    const refused = [
      ...Object.keys(refusedParameters),
      ...Object.values(refusedByRoute).flatMap((table) => Object.keys(table)),
    ];
    expect([...names].toSorted()).toEqual([...new Set(refused)].toSorted());
  });

  test("lists no parameter twice for the same route", () => {
    const supported = {
      chat: chatParameters,
      completions: completionParameters,
      embeddings: embeddingParameters,
    };
    const routes = ["chat", "completions", "embeddings"] as const;
    for (const route of routes) {
      const others = [
        ...ignoredParameters,
        ...Object.keys(refusedParameters),
        ...Object.keys(refusedByRoute[route]),
      ];
      expect(others.filter((name) => supported[route].has(name))).toEqual([]);
      expect(new Set(others).size).toBe(others.length);
    }
  });
});
