import type { AppSpec, SecretReference } from "../resources/app-spec.ts";
import {
  type ComposeNode,
  type Entry,
  getValue,
  isNull,
  listEntries,
  listItems,
  type Mapping,
  type Scalar,
  type SourceLocation,
} from "./compose-tree.ts";
import type { FindingList } from "./import-findings.ts";
import type { ComposeFileReader, ComposeProject } from "./load-project.ts";

export interface ConversionOptions {
  readonly files: ComposeFileReader;
  /** Where the spec files will be: a build's folder is written relative to it. */
  readonly specFolder: string;
  /** What `~` stands for; undefined where nobody knows. */
  readonly home: string | undefined;
  /** `secret`: what looks like a password becomes a reference to a Secret. */
  readonly secrets: "env" | "secret";
}

/** A value of an app's Secret that a person still has to set. */
export interface SecretValue {
  readonly secret: string;
  readonly key: string;
}

/** A variable with the place that its value comes from. */
export interface EnvVariable {
  readonly name: string;
  readonly value: string;
  readonly node: ComposeNode;
}

/** One service on its way to an App: what is read, what is written, and what there is to say. */
export class ServiceConversion {
  readonly service: string;
  /** Where the service is declared. */
  readonly place: SourceLocation;
  /** The name of the App. */
  readonly app: string;
  readonly body: Mapping;
  readonly project: ComposeProject;
  readonly options: ConversionOptions;
  /** Names of the Apps of all services that are converted. */
  readonly apps: ReadonlyMap<string, string>;
  readonly spec: AppSpec = {};
  readonly env = new Map<string, EnvVariable>();
  /** Variables that are taken from Secrets. */
  readonly secretReferences = new Map<string, SecretReference>();
  readonly secretValues: SecretValue[] = [];
  isFailed = false;
  readonly #findings: FindingList;

  constructor(given: {
    service: string;
    place: SourceLocation;
    app: string;
    body: Mapping;
    project: ComposeProject;
    options: ConversionOptions;
    apps: ReadonlyMap<string, string>;
    findings: FindingList;
  }) {
    this.service = given.service;
    this.place = given.place;
    this.app = given.app;
    this.body = given.body;
    this.project = given.project;
    this.options = given.options;
    this.apps = given.apps;
    this.#findings = given.findings;
  }

  getNode(key: string): ComposeNode | undefined {
    const node = getValue(this.body, key);
    return isNull(node) ? undefined : node;
  }

  getEntry(key: string): Entry | undefined {
    return isNull(getValue(this.body, key)) ? undefined : this.body.entries.get(key);
  }

  addNote(target: ComposeNode | Entry, message: string, hint?: string): void {
    this.#findings.add("note", this.service, target, message, hint);
  }

  addLoss(target: ComposeNode | Entry, message: string, hint?: string): void {
    this.#findings.add("lost", this.service, target, message, hint);
  }

  /** A finding about a value that somebody else still has to deal with. */
  addUnhandledFinding(
    level: "note" | "lost",
    target: ComposeNode,
    message: string,
    hint?: string,
  ): void {
    this.#findings.addWithoutHandling(level, this.service, target, message, hint);
  }

  /** A finding about the service as a whole. */
  addServiceFinding(level: "note" | "lost" | "failed", message: string, hint?: string): void {
    if (level === "failed") this.isFailed = true;
    const key = { ...this.body, place: this.place };
    this.#findings.addWithoutHandling(level, this.service, key, message, hint);
  }

  /** The service cannot be converted; what else there is to say about it is still gathered. */
  addFailure(target: ComposeNode | Entry, message: string, hint?: string): void {
    this.isFailed = true;
    this.#findings.add("failed", this.service, target, message, hint);
  }

  /** The value is part of the result. */
  markHandled(node: ComposeNode | undefined): void {
    this.#findings.markHandled(node);
  }

  /** A single value as text; anything else is reported. */
  readText(node: ComposeNode | undefined): string | undefined {
    if (!node || isNull(node)) return undefined;
    if (node.kind !== "scalar") {
      this.addLoss(node, "is left out: a single value was expected here");
      return undefined;
    }
    this.markHandled(node);
    return node.text;
  }

  /** True for what YAML 1.1 and people write as yes. */
  isTrue(node: ComposeNode | undefined): boolean {
    return /^(true|yes|y|on|1)$/i.test(this.readText(node) ?? "");
  }

  /** The texts of a list, or of the single value in its place. */
  readTexts(node: ComposeNode | undefined): Scalar[] {
    const found: Scalar[] = [];
    for (const item of listItems(node)) {
      if (item.kind !== "scalar") this.addLoss(item, "is left out: text was expected here");
      else if (item.value !== null) found.push(item);
    }
    return found;
  }

  /** Entries of a mapping, without those that say nothing. */
  listEntries(node: ComposeNode | undefined): readonly Entry[] {
    return listEntries(node).filter(({ value }) => !isNull(value));
  }
}
