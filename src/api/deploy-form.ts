import type { MultipartFile, MultipartValue } from "@fastify/multipart";
import type { FastifyRequest } from "fastify";
import { BerthError } from "../base/errors.ts";
import { SourceDeployConfig } from "../resources/wire/apps.ts";
import { parseRequestJson } from "./request-json.ts";
import { compileValidator } from "./schema-validation.ts";

export const CONFIG_BYTES_MAX = 64 * 1024;
const KNOWN_PARTS = "known parts: config, source";

const checkConfig = compileValidator(SourceDeployConfig, "body");

/** A part of a source deploy. The parts arrive in the order in which the client sends them. */
export type DeployFormPart =
  | { readonly type: "config"; readonly config: SourceDeployConfig }
  /** The caller reads the stream to its end before it requests the next part. */
  | { readonly type: "source"; readonly stream: AsyncIterable<Uint8Array> };

/**
 * Reads the parts of a source deploy. Throws BerthError `invalid_request`, `payload_too_large` and
 * `unsupported_media_type`.
 */
export async function* readDeployForm(request: FastifyRequest): AsyncGenerator<DeployFormPart> {
  assertForm(request);
  const seen = new Set<string>();
  for await (const part of readParts(request)) {
    // The form parser can return a part without a name, although its types exclude that, so the name is checked.
    const name: string | undefined = part.fieldname;
    if (name === undefined)
      throw new BerthError("invalid_request", `a part of the form has no name; ${KNOWN_PARTS}`);
    if (seen.has(name)) {
      throw new BerthError("invalid_request", `the part "${name}" occurs twice`);
    }
    if (name === "source" && part.type === "file") {
      seen.add(name);
      yield { type: "source", stream: readFile(part) };
    } else if (name === "source") {
      throw new BerthError("invalid_request", 'the part "source" is not a file', {
        hint: "with curl: -F source=@source.tar.gz",
      });
    } else if (name === "config") {
      seen.add(name);
      yield { type: "config", config: parseConfig(await readConfigPart(part)) };
    } else {
      throw new BerthError(
        "invalid_request",
        `unknown part ${JSON.stringify(name.slice(0, 80))}; ${KNOWN_PARTS}`,
      );
    }
  }
  for (const name of ["config", "source"]) {
    if (!seen.has(name)) throw new BerthError("invalid_request", `missing part "${name}"`);
  }
}

function assertForm(request: FastifyRequest): void {
  if (!request.isMultipart()) {
    throw new BerthError("unsupported_media_type", "the body is not multipart/form-data", {
      hint: "send the parts config (JSON) and source (a gzipped tar archive)",
    });
  }
  if (!/;\s*boundary=[^;\s]/i.test(request.headers["content-type"] ?? "")) {
    throw new BerthError("invalid_request", "the Content-Type of the form has no boundary", {
      hint: "let the HTTP client set the Content-Type of a form, as curl -F does",
    });
  }
}

async function* readParts(request: FastifyRequest): AsyncGenerator<MultipartFile | MultipartValue> {
  try {
    yield* request.parts();
  } catch (error) {
    throw toFormError(error);
  }
}

async function* readFile(part: MultipartFile): AsyncGenerator<Buffer> {
  try {
    yield* part.file;
  } catch (error) {
    throw toFormError(error);
  }
}

/** Converts an error of the form's parser. The parser's errors without a code are about the syntax of the body. */
function toFormError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof BerthError || "code" in error) return error;
  return new BerthError("invalid_request", "the form is malformed, or was cut before its end", {
    hint: "let one HTTP client make both the body and the Content-Type of the form, and send the whole body",
    cause: error,
  });
}

/** Reads the part `config`. Some clients send it as a file, to which the same limit applies. */
async function readConfigPart(part: MultipartFile | MultipartValue): Promise<Buffer> {
  if (part.type === "file") return readConfigFile(readFile(part));
  if (part.valueTruncated) throw configTooLargeError();
  // The form parser has already parsed a field of type application/json, so its value is written as JSON again.
  const { value } = part;
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
}

async function readConfigFile(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    length += chunk.length;
    if (length > CONFIG_BYTES_MAX) throw configTooLargeError();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function configTooLargeError(): BerthError {
  return new BerthError("payload_too_large", "config: is larger than 64 KiB");
}

function parseConfig(text: Buffer): SourceDeployConfig {
  const value = parseRequestJson(text) ?? null;
  const { error } = checkConfig(value);
  if (error) throw new BerthError("invalid_request", `config: ${error.message}`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the schema of this very type passed it
  return value as SourceDeployConfig;
}
