import type { Client } from "../../client/rest/client.ts";
import type { Kind } from "../../resources/kinds.ts";
import type { Cli } from "../cli.ts";
import type { CompanionSource } from "./companion-candidates.ts";
import type { CandidateSource, CompletionCandidate } from "./complete-command-line.ts";

/** The longest time that a user waits after pressing Tab. */
const ANSWER_MS_MAX = 1500;

/**
 * Fetches names from the server or the companion. Resolves to an empty list on any error, so that Tab prints no
 * message.
 */
export async function fetchCandidates(
  cli: Cli,
  source: CandidateSource,
): Promise<CompletionCandidate[]> {
  try {
    return await Promise.race([queryCandidates(cli, source), resolveEmptyAfter(ANSWER_MS_MAX)]);
  } catch {
    return [];
  }
}

async function queryCandidates(cli: Cli, source: CandidateSource): Promise<CompletionCandidate[]> {
  if (isCompanionSource(source)) {
    const { listCompanionCandidates } = await import("./companion-candidates.ts");
    return listCompanionCandidates(cli, source, AbortSignal.timeout(ANSWER_MS_MAX));
  }
  const client = await cli.connect();
  if (source.type === "tokens") {
    const { tokens } = await client.auth.tokens();
    return tokens
      .filter(({ kind }) => kind === "named")
      .map(({ name, scope }) => ({ value: name, description: scope }));
  }
  if (source.type === "builds") {
    const { builds } = await client.builds.list(source.app, { limit: 20 });
    return builds.map(({ id, state, revision }) => ({
      value: String(id),
      description: `${state}, ${revision.slice(0, 12)}`,
    }));
  }
  const prefix = source.prefix ?? "";
  if (source.type === "stacks")
    return (await client.stacks.list()).stacks.map(({ name, status }) => ({
      value: prefix + name,
      description: status,
    }));
  const names = await listNames(client, source.kind);
  return names.map(([name, description]) => ({ value: prefix + name, description }));
}

async function listNames(client: Client, kind: Kind): Promise<[name: string, about: string][]> {
  if (kind === "App")
    return (await client.apps.listAll()).map(({ name, status }) => [name, status]);
  if (kind === "Model")
    return (await client.models.list({ limit: 1000 })).models.map(({ name, status, id }) => [
      name,
      id === name ? status : `${status}, ${id}`,
    ]);
  if (kind === "Secret")
    return (await client.secrets.list()).secrets.map(({ name, keys }) => [name, keys.join(", ")]);
  return (await client.templates.list()).templates.map(({ id, name }) => [id, name]);
}

function isCompanionSource(source: CandidateSource): source is CompanionSource {
  return ["tool-apps", "tools", "parked-calls", "providers"].includes(source.type);
}

function resolveEmptyAfter(delayMs: number): Promise<CompletionCandidate[]> {
  return new Promise((resolve) => {
    setTimeout(() => resolve([]), delayMs).unref();
  });
}
