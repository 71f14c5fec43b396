import type { CallStatus } from "../../client/bus/agent-client.ts";
import type { CallDetail } from "../../client/bus/agent-wire.ts";
import type { Cli } from "../cli.ts";
import { suggestJsonPair } from "./call-arguments.ts";
import { sanitizeLine, sanitizeText } from "./untrusted-text.ts";

/**
 * The exit codes of a command that calls a tool, by the status of the call. Other errors have the exit codes that all
 * commands share.
 */
export const callExitCodes = { executed: 0, failed: 4, denied: 5, parked: 6 } as const;

/**
 * Prints the result on standard output, and all other information and errors on standard error. `words` are the
 * arguments that the user typed, if the command has any.
 */
export async function showCallResult(
  cli: Cli,
  callId: bigint,
  status: CallStatus,
  detail: CallDetail,
  words: readonly string[] = [],
): Promise<void> {
  cli.exitCode = callExitCodes[status];
  if (status !== "executed") return explainFailure(cli, callId, status, detail, words);
  const { toYaml } = await import("../output/yaml.ts");
  const text = formatResult(detail, toYaml);
  if (text !== "") await cli.print(text);
  if (!cli.io.errorIsTerminal) return;
  const undo = detail.isUndoable ? "; `berth undo` reverts it" : "";
  cli.note(cli.errorColours.dim(`call ${callId} is done${undo}`));
}

function explainFailure(
  cli: Cli,
  callId: bigint,
  status: CallStatus,
  detail: CallDetail,
  words: readonly string[],
): void {
  // A call that the user has declined is not an error.
  if (detail.code === "declined") return cli.note(`call ${callId} is declined; nothing was done`);
  const { red, cyan } = cli.errorColours;
  const reason = sanitizeLine(detail.message === "" ? detail.code : detail.message);
  const code = sanitizeLine(detail.code);
  cli.note(
    `${red("error:")} call ${callId} ${status === "denied" ? "was denied" : "failed"} (${code}): ${reason}`,
  );
  const faults = detail.errors.map(
    ({ path, message }) =>
      `${path === "" ? "" : `${sanitizeLine(path)}: `}${sanitizeLine(message)}`,
  );
  // A single error is already in the message that was printed above, so it is not repeated.
  for (const fault of faults) if (fault !== reason) cli.note(`  ${fault}`);
  const hint = findHint(detail, words);
  if (hint !== undefined) cli.note(`${cyan("try:")}   ${hint}`);
}

function findHint(detail: CallDetail, words: readonly string[]): string | undefined {
  const { code, appId, tool, digest, errors } = detail;
  if (detail.isOutcomeUnknown)
    return "check in the app if the call has taken effect before you call it again";
  switch (code) {
    case "invalid_args": {
      const pairs = words.flatMap((word) => suggestJsonPair(word, errors) ?? []);
      return pairs.length === 0 ? undefined : `${pairs.join(" ")} (:= gives JSON, = gives text)`;
    }
    case "unknown_app":
      return "`berth tools` lists the apps and their tools";
    case "unknown_tool":
      return `\`berth tools ${sanitizeLine(appId)}\` lists the tools of this app`;
    case "bad_json":
      return "arguments are one JSON object, or KEY=TEXT and KEY:=JSON pairs";
    case "manifest_changed":
      return digest === undefined
        ? undefined
        : `if you expected the app to change: berth tools approve ${sanitizeLine(appId)} ${sanitizeLine(tool)} ${sanitizeLine(digest)}`;
    case "ledger_unavailable":
      return "nothing was done; `berth ledger verify --user` checks the ledger";
    default:
      return undefined;
  }
}

/**
 * Returns the text blocks of a tool's result, or else its structured result as YAML, without terminal control
 * characters.
 */
function formatResult(
  { result, content }: CallDetail,
  toYaml: (document: unknown) => string,
): string {
  const blocks = content.map((block) => formatContentBlock(block));
  // By a convention of MCP, the text of a tool repeats its structured result as JSON. Only the structured result is
  // then shown.
  const isSame = blocks.length === 1 && isJsonOf(blocks[0] ?? "", result);
  if (blocks.length > 0 && !isSame) return sanitizeText(blocks.join("\n")).trimEnd();
  if (result === undefined) return "";
  return sanitizeText(typeof result === "string" ? result : toYaml(result)).trimEnd();
}

function isJsonOf(text: string, result: unknown): boolean {
  try {
    return result !== undefined && JSON.stringify(JSON.parse(text)) === JSON.stringify(result);
  } catch {
    return false;
  }
}

function formatContentBlock(block: unknown): string {
  const field = (name: string): string => {
    const value: unknown =
      typeof block === "object" && block !== null
        ? Object.getOwnPropertyDescriptor(block, name)?.value
        : undefined;
    return typeof value === "string" ? value : "";
  };
  const type = field("type");
  if (type === "text") return field("text");
  if (type === "resource_link") return `[${field("name")}] ${field("uri")}`;
  return `[${type === "" ? "something" : type}${field("mimeType") === "" ? "" : ` ${field("mimeType")}`}: use --json]`;
}
