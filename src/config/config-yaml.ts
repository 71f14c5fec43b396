import { isMap, isScalar, LineCounter, parseDocument } from "yaml";
import { ConfigError } from "./config-error.ts";

/** A parsed YAML settings file with the positions of its keys. */
export interface ConfigYaml {
  /** The mapping in the file; empty for an empty file. */
  readonly value: unknown;
  /** Returns `file:line:column` of a top-level key, or only the file if the file lacks the key. */
  readonly at: (key: string) => string;
}

/**
 * Reads a YAML file. Throws ConfigError, which names the file and the position, for invalid YAML and for duplicate
 * keys.
 */
export function readConfigYaml(text: string, file: string): ConfigYaml {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    uniqueKeys: true,
    // The option `prettyErrors` of the YAML parser is off, because it repeats the position in each message, and
    // ConfigError already contains the position.
    prettyErrors: false,
  });
  const broken = document.errors[0];
  if (broken) {
    const { line, col } = lines.linePos(broken.pos[0]);
    throw new ConfigError(`${file}:${line}:${col}: ${broken.message.split("\n")[0]}`);
  }
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 0 }) ?? {};
  } catch {
    throw new ConfigError(`${file}: anchors and aliases are not allowed in a config file`);
  }
  const at = (key: string) => {
    const pair = isMap(document.contents)
      ? document.contents.items.find((item) => isScalar(item.key) && item.key.value === key)
      : undefined;
    const offset = pair && isScalar(pair.key) ? pair.key.range?.[0] : undefined;
    if (offset === undefined) return file;
    const { line, col } = lines.linePos(offset);
    return `${file}:${line}:${col}`;
  };
  return { value, at };
}
