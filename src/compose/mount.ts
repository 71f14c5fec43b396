import { resolve } from "node:path";
import { type ComposeNode, getValue } from "./compose-tree.ts";
import type { ServiceConversion } from "./service-conversion.ts";

export interface Mount {
  readonly type: "bind" | "volume" | "tmpfs" | "other";
  /** The name of a volume, or a path exactly as written; undefined for an anonymous volume. */
  readonly source: string | undefined;
  readonly target: string;
  readonly readOnly: boolean;
  /** The options of a mount in the short syntax (`source:target:options`), except `ro` and `rw`. */
  readonly modes: readonly string[];
  /** The content of the file, which Coolify's files provide; undefined if it is elsewhere. */
  readonly content?: string | undefined;
  /** True if the source is known to be a folder. */
  readonly isFolder: boolean;
}

/** Keys of a mount that only Coolify's files have: the text of a file, and the marks of a folder. */
export const CONTENT_KEYS = ["content", "is_directory", "isDirectory"] as const;

/** Parses `[source:]target[:modes]` or a mapping; returns undefined for any other value. */
export function readMount(conversion: ServiceConversion, item: ComposeNode): Mount | undefined {
  if (item.kind === "list") return undefined;
  if (item.kind === "scalar") return parseShortMount(item.text);
  const type = conversion.readText(getValue(item, "type")) ?? "volume";
  const target = conversion.readText(getValue(item, "target"));
  const source = conversion.readText(getValue(item, "source"));
  if (target === undefined) return undefined;
  return {
    type: type === "bind" || type === "volume" || type === "tmpfs" ? type : "other",
    source,
    target,
    readOnly: conversion.isTrue(getValue(item, "read_only")),
    modes: [],
    content: conversion.readText(getValue(item, "content")),
    isFolder: ["is_directory", "isDirectory"].some((key) => conversion.isTrue(getValue(item, key))),
  };
}

export function parseShortMount(text: string): Mount | undefined {
  const windows = /^([A-Za-z]:[\\/][^:]*):(.*)$/.exec(text);
  const parts = (windows?.[2] ?? text).split(":");
  if (windows?.[1] !== undefined) parts.unshift(windows[1]);
  if (parts.length > 3 || parts.some((part) => part === "")) return undefined;
  const [first = "", target, modes = ""] = parts;
  const options = modes.split(",").filter((mode) => mode !== "");
  if (target === undefined) {
    const common = { readOnly: false, modes: [], isFolder: false } as const;
    return { type: "volume", source: undefined, target: first, ...common };
  }
  return {
    type: /^([./~]|[A-Za-z]:[\\/])/.test(first) ? "bind" : "volume",
    source: first,
    target,
    readOnly: options.includes("ro"),
    modes: options.filter((mode) => mode !== "ro" && mode !== "rw"),
    isFolder: first.endsWith("/"),
  };
}

/** Resolves the source of a bind mount to a folder of the machine; returns undefined if that is impossible. */
export function resolveHostPath(
  conversion: ServiceConversion,
  node: ComposeNode,
  source: string,
): string | undefined {
  if (/^[A-Za-z]:[\\/]|\\/.test(source)) return undefined;
  if (source === "~" || source.startsWith("~/")) {
    const { home } = conversion.options;
    return home === undefined ? undefined : resolve(home, `.${source.slice(1)}`);
  }
  if (source.startsWith("~")) return undefined;
  return resolve(node.place.source.folder, source);
}

/** A mount as other services see it. */
export interface ListedMount extends Pick<Mount, "source" | "content"> {
  readonly type: string;
  readonly node: ComposeNode;
}

/** Lists the mounts of a service, without reporting or marking anything. */
export function listMounts(service: ComposeNode): ListedMount[] {
  const volumes = getValue(service, "volumes");
  return (volumes?.kind === "list" ? volumes.items : []).flatMap((node): ListedMount[] => {
    if (node.kind === "scalar") {
      const mount = parseShortMount(node.text);
      return mount ? [{ type: mount.type, source: mount.source, node }] : [];
    }
    const getText = (key: string) => {
      const value = getValue(node, key);
      return value?.kind === "scalar" && value.value !== null ? value.text : undefined;
    };
    return [
      {
        type: getText("type") ?? "volume",
        source: getText("source"),
        content: getText("content"),
        node,
      },
    ];
  });
}

/** Lists the named volumes that a service mounts. */
export function listNamedVolumes(service: ComposeNode): string[] {
  return listMounts(service).flatMap(({ type, source }) =>
    type === "volume" && source !== undefined ? [source] : [],
  );
}
