import { statSync } from "node:fs";
import { resolve } from "node:path";
import { isChatTemplateText } from "../base/chat-template-text.ts";
import { ConfigError } from "./config-error.ts";

/** A chat template named with --chat-template. */
export interface ConfiguredTemplate {
  /** The id of the model; undefined means all models that are named with --model. */
  readonly model: string | undefined;
  /** The text of the template, or the absolute path of a file. */
  readonly template: string;
}

/** Parses `[ID=]FILE` or `[ID=]TEXT`. Throws ConfigError if the named file does not exist. */
export function parseConfiguredTemplate(
  text: string,
  _origin: string,
  workingDirectory: string,
): ConfiguredTemplate {
  const split = /^(?<model>[A-Za-z0-9][^=\s{]*)=(?<template>.+)$/s.exec(text)?.groups;
  const model = split?.["model"];
  const template = split?.["template"] ?? text;
  if (isChatTemplateText(template)) return { model, template };
  const path = resolve(workingDirectory, template);
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true)
    throw new ConfigError(
      `--chat-template names no file: ${template}`,
      "name a file with a chat template, such as model.jinja; relative paths are resolved against the working directory",
    );
  return { model, template: path };
}
