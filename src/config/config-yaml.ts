import { isMap, isScalar, LineCounter, parseDocument } from "yaml";
import { ConfigError } from "./config-error.ts";

/** A settings file as YAML, and where its keys stand. */
export interface ConfigYaml {
  /** An empty file has no settings. */
  readonly value: unknown;
  /** `file:line:column` of a key at the top; the file where it has none. */
  readonly at: (key: string) => string;
}

/** Throws ConfigError, which names the file and the place, for what is no YAML or has a key twice. */
export function readConfigYaml(text: string, file: string): ConfigYaml {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    uniqueKeys: true,
    // Without these, messages end with a place of their own.
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
    throw new ConfigError(`${file}: anchors and aliases have no place in a config file`);
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
