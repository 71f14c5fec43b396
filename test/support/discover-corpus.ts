import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseBuiltInManifest } from "../../src/assistant/agent/manifests/parse-manifest.ts";
import type { AppManifest } from "../../src/assistant/agent/tool-manifest.ts";
import { berthAppsManifest } from "../../src/base/berth-tool-manifest.ts";

const folder = join(import.meta.dirname, "../fixtures/discover");

interface CorpusApp {
  readonly id: string;
  readonly name: string;
  /** The tools as in a manifest, but with the descriptions of the arguments instead of a schema. */
  readonly tools: readonly ({ readonly args: Readonly<Record<string, string>> } & object)[];
}

/** Returns the manifests of Berth and of the apps in test/fixtures/discover, which together have more than 110 tools. */
export function corpusApps(): readonly AppManifest[] {
  const apps: CorpusApp[] = JSON.parse(readFileSync(join(folder, "apps.json"), "utf8"));
  const manifests = apps.map(({ id, name, tools }) => ({
    svc_manifest: 1,
    app_id: id,
    name,
    mcp: { transport: "unix" },
    tools: tools.map(({ args, ...tool }) => ({ ...tool, input_schema: toSchema(args) })),
  }));
  return [...manifests, berthAppsManifest]
    .map(parseBuiltInManifest)
    .toSorted((a, b) => (a.appId < b.appId ? -1 : 1));
}

function toSchema(args: CorpusApp["tools"][number]["args"]) {
  const properties = Object.entries(args).map(([name, description]) => [
    name,
    { type: "string", ...(description !== "" && { description }) },
  ]);
  return { type: "object", properties: Object.fromEntries(properties) };
}

export interface LabelledQuery {
  readonly query: string;
  /** The names of the tools that match the query, with the best one first. */
  readonly wanted: readonly string[];
}

/** Returns the queries with which the ranking was adjusted, each with its tools in order of their relevance. */
export function corpusQueries(): readonly LabelledQuery[] {
  return readLines("queries.txt").map(([query = "", wanted = ""]) => ({
    query,
    wanted: wanted.split(" "),
  }));
}

export interface Wish extends LabelledQuery {
  /** True if the user only asks to see something. */
  readonly isLook: boolean;
  /** True for the third of the sentences that must not be used to adjust the ranking. */
  readonly isHeldOut: boolean;
}

/**
 * Returns sentences in which a user asks for something, each with the tools that can do it. Any of these tools is a
 * right choice.
 */
export function corpusWishes(): readonly Wish[] {
  return readLines("wishes.txt").map(([query = "", wanted = "", mark]) => ({
    query,
    wanted: wanted.split(" "),
    isLook: mark === "look",
    isHeldOut: (createHash("sha256").update(query).digest()[0] ?? 0) % 3 === 0,
  }));
}

function readLines(file: string): readonly (readonly string[])[] {
  const lines = readFileSync(join(folder, file), "utf8").split("\n");
  return lines
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.split(" | "));
}
