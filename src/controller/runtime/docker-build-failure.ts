import { BerthError } from "../../base/errors.ts";
import { cleanEngineText, errorFromEngineText, PULL_ACTION_PREFIX } from "./docker-errors.ts";

/** A step of a build that failed, or that was running when the build failed. */
export interface FailedStep {
  readonly number: number;
  readonly total: number;
  /** The text of the step's instruction in the Dockerfile, such as `RUN npm ci`. */
  readonly text: string;
  readonly lastLines: readonly string[];
}

export interface EngineBuildFailure {
  /** The engine's message. */
  readonly text: string;
  readonly exitCode?: number | undefined;
  readonly step?: FailedStep | undefined;
  /** The base image that the engine was resolving when the build failed, if the engine reported it. */
  readonly base?: string | undefined;
  /** The build's memory limit, for the hint. */
  readonly memoryBytes?: number | undefined;
  /** True if credentials for the base image's registry were sent. */
  readonly hasAuth: boolean;
  readonly cause?: unknown;
}

const STEP_LENGTH_MAX = 200;
const NO_SPACE = /no space left on device|ENOSPC|disk quota exceeded/i;
const EXIT_CODE_KILLED = 137;

/** Messages of internal failures of the engine, after which the same source can succeed. */
const ENGINE_PROBLEM =
  /context canceled|graceful_stop|transport is closing|connection (?:refused|reset)|code = Unavailable|no such (?:image|container): |layer does not exist|failed to (?:register layer|create endpoint|set up container networking|mount)|error (?:creating|mounting)|input\/output error|unexpected EOF/i;

const PULL_PROBLEM =
  /\b(?:Get|Head) "?https?:|manifest unknown|failed to do request|pull access denied|failed to authorize|unexpected status|no active sessions|i\/o timeout|dial tcp/i;

/** The prefix of errors of BuildKit's solver. */
const SOLVER = /failed to solve/i;
const WRAPPING =
  /^(?:rpc error: code = Unknown desc = |failed to (?:solve|create LLB definition|compute cache key|load cache key)(?: with frontend [\w.]+)?: |invalid from flag value \S+: (?=Get|Head|manifest|pull))+/i;

/** The engines' messages for a file that COPY or ADD did not find. */
const MISSING_FILE = [
  /file not found in build context or excluded by \.dockerignore: stat ([^:]+): /i,
  /"\/?([^"]+)"(?: not found)?: not found/i,
  /\bl?stat (?:\/\S*\/(?:docker-builder|buildkit-mount)\d+\/)([^:]+): no such file/i,
  /(?:COPY|ADD) failed: stat ([^:]+): (?:no such file|file does not exist)/i,
];

/** Matches a path in the folder into which an engine unpacks a context. The group is the path in the source. */
const ENGINE_FOLDER = /\/\S*\/(?:docker-builder|buildkit-mount)\d+\/?([^\s:]*)/g;

/**
 * Converts the failure of a build on the engine to a BerthError. The engine reports the failure in the stream of the
 * build, or as the response to the request.
 */
export function toEngineBuildError(failure: EngineBuildFailure): BerthError {
  const { cause, step } = failure;
  const text = stripWrapping(failure.text);
  const exitCode = failure.exitCode ?? parseExitCode(text);
  const during = step ? ` in ${describeStep(step)}` : "";
  // A command that fails because of a full disk may have any exit code, so only its output shows the reason.
  const outOfSpace = exitCode === undefined ? NO_SPACE.test(text) : hasOutput(step, NO_SPACE);
  if (outOfSpace)
    return new BerthError(
      "disk_full",
      `cannot build the image: the disk is full${during}${formatLastLines(step)}`,
      {
        cause,
        hint: "free some space: docker system df shows what uses it, docker builder prune removes the build cache",
      },
    );
  if (exitCode !== undefined)
    return new BerthError(
      "build_failed",
      `${step ? describeStep(step) : "a step"} failed with exit code ${exitCode}${formatLastLines(step)}`,
      { cause, hint: exitHint(exitCode, failure.memoryBytes), details: { exitCode } },
    );
  return (
    dockerfileFailure(text, step, cause) ??
    pullFailure(text, failure) ??
    otherFailure(text, failure)
  );
}

function parseExitCode(text: string): number | undefined {
  const code = /(?:returned a non-zero code|exit code): (\d+)\s*$/.exec(text)?.[1];
  return code === undefined ? undefined : Number(code);
}

function hasOutput(step: FailedStep | undefined, pattern: RegExp): boolean {
  return step?.lastLines.some((line) => pattern.test(line)) ?? false;
}

function exitHint(exitCode: number, memoryBytes: number | undefined): string {
  if (exitCode === EXIT_CODE_KILLED)
    return memoryBytes === undefined
      ? "the command was killed, most often because the machine ran out of memory"
      : `the command was killed, most often because it ran out of memory: the build's limit is ${Math.round(memoryBytes / 2 ** 20)} MiB, which can be raised`;
  if (exitCode === 127) return "a command was not found: check that the base image has it";
  return "correct the source or its Dockerfile; the complete output is in the build's log";
}

/**
 * Returns the error `build_failed` if the Dockerfile, or a file that it copies from the context, caused the failure;
 * otherwise undefined. A retry without a change of these files cannot succeed.
 */
function dockerfileFailure(
  text: string,
  step: FailedStep | undefined,
  cause: unknown,
): BerthError | undefined {
  const failed = (message: string, hint?: string) =>
    new BerthError("build_failed", message, { cause, hint });
  const parse = /dockerfile parse error(?: on)? line (\d+): (.*)/is.exec(text);
  if (parse)
    return failed(
      `the Dockerfile cannot be read: line ${parse[1]}: ${cleanEngineText(parse[2] ?? "")}`,
      "correct that line; heredocs (<<EOF) need BuildKit",
    );
  const option = /the (--[a-z-]+) option requires BuildKit/i.exec(text)?.[1];
  if (option)
    return failed(
      `${step ? describeStep(step) : "the Dockerfile"} uses ${option}, which only BuildKit supports`,
      "build the image with BuildKit, or remove that option",
    );
  if (/\bbuildkit (?:is )?not (?:supported|available|enabled)/i.test(text))
    return failed(
      `this engine has no BuildKit: ${cleanEngineText(text)}`,
      "use the classic builder, or an engine with BuildKit (Docker 20.10 or newer)",
    );
  const missing =
    /Cannot locate specified Dockerfile: (.*)/i.exec(text)?.[1] ??
    (/failed to read dockerfile: open (?:.*\/)?([^/:]+): no such file/i.exec(text)?.[1] ||
      undefined);
  if (missing !== undefined)
    return failed(
      `the source has no file ${cleanEngineText(missing)} to build from`,
      "set the path of the Dockerfile in the App's source; .dockerignore may exclude it",
    );
  if (/Dockerfile.* cannot be empty|no build stage in current context/i.test(text))
    return failed(
      "the Dockerfile has no FROM line",
      "begin the Dockerfile with FROM and a base image",
    );
  const target =
    /(?:failed to reach build target|target stage) (?:")?([^\s"]+)/i.exec(text)?.[1] ?? undefined;
  if (target !== undefined) return failed(`the Dockerfile has no stage ${target}`);
  const file = MISSING_FILE.map((pattern) => pattern.exec(text)?.[1]).find(Boolean);
  if (file !== undefined) {
    const stage = /\s--from=(\S+)/i.exec(step?.text ?? "")?.[1];
    const copy = step ? describeStep(step) : "a COPY of the Dockerfile";
    return stage === undefined
      ? failed(
          `${copy} failed: the source has no ${cleanEngineText(file)}`,
          "check the path, which starts at the source's folder; .dockerignore may leave it out",
        )
      : failed(`${copy} failed: ${stage} has no ${cleanEngineText(file)}`);
  }
  return undefined;
}

/** Returns the BerthError for a failed pull of a base image; undefined for other errors. */
function pullFailure(text: string, failure: EngineBuildFailure): BerthError | undefined {
  const { step, cause, hasAuth } = failure;
  const base = failure.base ?? parseBaseImage(step?.text ?? "");
  if (base === undefined) return undefined;
  const isFrom = failure.base !== undefined || /^FROM\s/i.test(step?.text ?? "");
  if (!isFrom && !PULL_PROBLEM.test(text)) return undefined;
  const pulled = `${PULL_ACTION_PREFIX}${base}`;
  if (text.endsWith(": not found"))
    return new BerthError("image_not_found", `cannot ${pulled}: there is no such image`, {
      cause,
      hint: "check the name and the tag in the Dockerfile",
    });
  // BuildKit reports "no active sessions" if it has neither credentials nor a session that provides credentials.
  const error = /no active sessions/.test(text)
    ? registryDeniedError(pulled, cause)
    : errorFromEngineText(text, pulled, undefined, cause);
  // Registries give the same response for missing and for private images. If credentials were sent, the registry has
  // probably refused them, so the failure is reported as `registry_denied`.
  if (error.code === "image_not_found" && hasAuth && /private/.test(error.message))
    return registryDeniedError(pulled, cause);
  if (error.code === "registry_denied") return registryDeniedError(pulled, cause);
  return error;
}

function registryDeniedError(pulled: string, cause: unknown): BerthError {
  return new BerthError("registry_denied", `cannot ${pulled}: the registry denied access`, {
    cause,
    hint: "check the name in the Dockerfile, and the Secret of type registry for the image's registry",
  });
}

/** Returns the image of a FROM line; undefined for other instructions. */
export function parseFromImage(instruction: string): string | undefined {
  return /^FROM\s+(?:--\S+\s+)*(\S+)/i.exec(instruction)?.[1];
}

/** Returns the image that an instruction refers to; undefined for other instructions. */
function parseBaseImage(instruction: string): string | undefined {
  return parseFromImage(instruction) ?? /^(?:COPY|ADD)\s.*--from=(\S+)/i.exec(instruction)?.[1];
}

function otherFailure(text: string, { text: whole, step, cause }: EngineBuildFailure): BerthError {
  const what = cleanEngineText(
    text.replace(ENGINE_FOLDER, (_, rest: string) => rest || "(a file of the engine)"),
  );
  if (ENGINE_PROBLEM.test(text) || (!step && !SOLVER.test(whole)))
    return new BerthError(
      "engine_error",
      `cannot build the image: ${step ? `${describeStep(step)}: ` : ""}${what}`,
      { cause, hint: "see the engine's log" },
    );
  return new BerthError(
    "build_failed",
    step
      ? `${describeStep(step)} failed: ${what}${formatLastLines(step)}`
      : `the build failed: ${what}`,
    { cause },
  );
}

function describeStep({ number, total, text }: FailedStep): string {
  const short = text.length > STEP_LENGTH_MAX ? `${text.slice(0, STEP_LENGTH_MAX)}…` : text;
  return `step ${number} of ${total} (${short})`;
}

function formatLastLines(step: FailedStep | undefined): string {
  return step && step.lastLines.length > 0 ? `; last lines: ${step.lastLines.join(" | ")}` : "";
}

/** Removes the prefixes that the engine puts before the actual error. */
function stripWrapping(text: string): string {
  return text.trim().replace(WRAPPING, "");
}
