import type { IncomingHttpHeaders } from "node:http";
import { BerthError } from "../base/errors.ts";
import { parseRequestJson } from "./request-json.ts";

/** The content of a webhook request from a git server, as far as Berth uses it. */
export type GitHookEvent =
  | { readonly type: "ping" }
  | {
      readonly type: "push";
      readonly urls: readonly string[];
      /** The full name of the pushed ref, such as refs/heads/main; undefined if the event lacks it. */
      readonly ref: string | undefined;
    }
  /** An event that Berth ignores: one of another type, or a push that deletes a branch. */
  | { readonly type: "other" };

/** The fields in which GitHub, Gitea, Forgejo and GitLab send the URLs of a repository. */
const repositoryUrlKeys = [
  "clone_url",
  "ssh_url",
  "html_url",
  "git_url",
  "git_http_url",
  "git_ssh_url",
];
const projectUrlKeys = ["git_http_url", "git_ssh_url", "http_url", "ssh_url", "web_url", "url"];
const URLS_MAX = 20;

/** Parses the body of a push notification. Throws BerthError `invalid_request` for a body in an unknown format. */
export function parseGitHook(headers: IncomingHttpHeaders, body: Buffer): GitHookEvent {
  const event = String(
    headers["x-github-event"] ??
      headers["x-gitea-event"] ??
      headers["x-forgejo-event"] ??
      headers["x-gitlab-event"] ??
      "push",
  ).toLowerCase();
  if (event === "ping") return { type: "ping" };
  if (!["push", "push hook", "tag push hook", "create"].includes(event)) return { type: "other" };
  const payload = asRecord(parsePayload(headers, body));
  if (payload === undefined) {
    throw new BerthError("invalid_request", "the body is not a push notification");
  }
  // A push that deletes a branch is ignored, because there is nothing to fetch.
  if (payload["deleted"] === true || payload["after"] === "0".repeat(40)) {
    return { type: "other" };
  }
  const repository = asRecord(payload["repository"]) ?? {};
  const project = asRecord(payload["project"]) ?? {};
  const urls = [
    ...repositoryUrlKeys.map((key) => repository[key]),
    ...projectUrlKeys.map((key) => project[key]),
  ].filter((url) => typeof url === "string" && url !== "");
  const ref = payload["ref"];
  return {
    type: "push",
    urls: [...new Set(urls.map(String))].slice(0, URLS_MAX),
    ref: typeof ref === "string" && ref !== "" ? ref : undefined,
  };
}

/** Parses JSON, or a form with the JSON in a field, which is the default of GitHub. */
function parsePayload(headers: IncomingHttpHeaders, body: Buffer): unknown {
  if (!String(headers["content-type"]).startsWith("application/x-www-form-urlencoded")) {
    return parseRequestJson(body);
  }
  const field = new URLSearchParams(body.toString("utf8")).get("payload");
  return field === null ? undefined : parseRequestJson(Buffer.from(field));
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : undefined;
}
