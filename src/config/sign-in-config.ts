import { readFileSync } from "node:fs";
import type { ErrorObject } from "ajv";
import { type Static, Type } from "typebox";
import { getErrorCode } from "../base/errors.ts";
import { LazyValidator } from "../base/json-validator.ts";
import { findNearest } from "../base/spelling-suggestions.ts";
import { InvalidJsonError, parseStrictJson } from "../base/strict-json.ts";
import { ConfigError } from "./config-error.ts";

const CONFIG_VARIABLE = "ASSISTANT_OAUTH_CONFIG";
const FILE_BYTES_MAX = 65_536;

/**
 * Matches the address of a provider. HTTP without TLS is allowed only for this machine, because no other machine can
 * read that traffic.
 */
const ADDRESS_PATTERN =
  "^(https://[^\\s/@?#]+|http://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]{1,5})?)(/[^\\s?#]*)?$";

const strict = { additionalProperties: false };
const addressSchema = Type.Optional(Type.String({ pattern: ADDRESS_PATTERN, maxLength: 2048 }));

const SignInDocument = Type.Object(
  {
    openrouter: Type.Optional(
      Type.Object(
        { authorizeUrl: addressSchema, exchangeUrl: addressSchema, baseUrl: addressSchema },
        strict,
      ),
    ),
    huggingface: Type.Optional(
      Type.Object(
        {
          issuer: addressSchema,
          clientId: Type.Optional(Type.String({ pattern: "^[\\x21-\\x7e]{1,2048}$" })),
          baseUrl: addressSchema,
        },
        strict,
      ),
    ),
  },
  strict,
);

const validator = new LazyValidator<Static<typeof SignInDocument>>(SignInDocument, {
  allErrors: true,
});

/** The allowed keys of each section; "" is the top level. */
const knownKeys: { readonly [place: string]: readonly string[] } = {
  "": ["openrouter", "huggingface"],
  openrouter: ["authorizeUrl", "exchangeUrl", "baseUrl"],
  huggingface: ["issuer", "clientId", "baseUrl"],
};

/** Sign-in and API addresses of the built-in providers, without trailing slashes. */
export interface SignInConfig {
  readonly openrouter: {
    readonly authorizeUrl: string;
    readonly exchangeUrl: string;
    readonly baseUrl: string;
  };
  readonly huggingface: {
    /** The URL of the issuer, at which OpenID Connect discovery begins. */
    readonly issuer: string;
    /** The OAuth client id; if undefined, Berth registers itself as a client. */
    readonly clientId: string | undefined;
    readonly baseUrl: string;
  };
}

/**
 * The providers' documented addresses: https://openrouter.ai/docs/guides/overview/auth/oauth and
 * https://huggingface.co/docs/hub/oauth.
 */
export const signInDefaults: SignInConfig = Object.freeze({
  openrouter: {
    authorizeUrl: "https://openrouter.ai/auth",
    exchangeUrl: "https://openrouter.ai/api/v1/auth/keys",
    baseUrl: "https://openrouter.ai/api/v1",
  },
  huggingface: {
    issuer: "https://huggingface.co",
    clientId: undefined,
    baseUrl: "https://router.huggingface.co/v1",
  },
});

/**
 * Reads the sign-in addresses: the defaults, overridden by the values in the file, if one is named. Throws
 * ConfigError, which names the file and the key, also if the named file does not exist.
 */
export function readSignInConfig(file: string | undefined): SignInConfig {
  if (!file) return signInDefaults;
  const document = readSignInDocument(file);
  const { openrouter, huggingface } = document;
  for (const [section, keys] of Object.entries(document)) {
    for (const [key, value] of Object.entries(keys)) {
      // The pattern does not check ports and hosts, so the URL is parsed too.
      if (key !== "clientId" && URL.parse(value) === null)
        throw new ConfigError(`${file}: ${section}.${key} is not a valid address`);
    }
  }
  return Object.freeze({
    openrouter: { ...signInDefaults.openrouter, ...trimTrailingSlashes(openrouter ?? {}) },
    huggingface: { ...signInDefaults.huggingface, ...trimTrailingSlashes(huggingface ?? {}) },
  });
}

function readSignInDocument(file: string): Static<typeof SignInDocument> {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    const code = getErrorCode(error) ?? "unknown";
    throw new ConfigError(
      `${CONFIG_VARIABLE}: the file ${file} cannot be read (${code})`,
      "name an existing JSON file, or unset the variable",
    );
  }
  if (bytes.length > FILE_BYTES_MAX)
    throw new ConfigError(`${CONFIG_VARIABLE}: the file ${file} is larger than 64 KiB`);
  let value: unknown;
  try {
    value = parseStrictJson(bytes, {
      depthMax: 8,
      forbiddenKeys: new Set(["__proto__"]),
      subject: "the file",
    });
  } catch (error) {
    if (error instanceof InvalidJsonError) throw new ConfigError(`${file}: ${error.message}`);
    throw error;
  }
  if (!validator.isValid(value)) {
    const problems = validator.errors.map((error) => `${file}: ${explainError(error)}`);
    throw new ConfigError([...new Set(problems)].join("\n"), "see docs/remote-credentials.md");
  }
  return value;
}

function explainError(error: ErrorObject): string {
  const place = error.instancePath.slice(1).replaceAll("/", ".");
  if (error.keyword === "additionalProperties") {
    const key = String(error.params["additionalProperty"]);
    const meant = findNearest(key, knownKeys[place] ?? []);
    const where = place === "" ? "" : ` in ${place}`;
    return `unknown key "${key}"${where}${meant ? `; did you mean "${meant}"?` : ""}`;
  }
  if (place === "") return "the file must contain an object with the key openrouter or huggingface";
  if (!place.includes(".")) return `${place} must be an object`;
  return place.endsWith(".clientId")
    ? `${place} must be a client id, without blanks`
    : `${place} must be an https address without user, query or fragment (http only on this machine)`;
}

function trimTrailingSlashes<T extends object>(section: T): T {
  const entries = Object.entries(section).map(([key, value]) => [
    key,
    typeof value === "string" && key !== "clientId" ? value.replace(/\/+$/, "") : value,
  ]);
  return Object.fromEntries(entries);
}
