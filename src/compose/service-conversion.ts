import type { AppSpec } from "../resources/app-spec.ts";
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
import type { WebPort } from "./http-hints.ts";
import type { ImageUser } from "./image-users.ts";
import type { FindingLevel, FindingList } from "./import-findings.ts";
import type { ComposeFileReader, ComposeProject } from "./load-project.ts";

export interface ConversionOptions {
  /** The name of the stack to which the apps belong. */
  readonly stack: string;
  /** The origin of the Apps, which identifies the project. */
  readonly origin: string;
  readonly files: ComposeFileReader;
  /** The folder of the spec files, to which the source folder of a build is relative. */
  readonly specFolder: string;
  /** The folder that replaces `~`; undefined if it is unknown. */
  readonly home: string | undefined;
  /**
   * `secret` replaces values that look like passwords by references to Secrets; `env` keeps these values in the spec.
   */
  readonly secrets: "env" | "secret";
  /** The services that the user makes public. The value is the service's port, or undefined if the user names none. */
  readonly publicPorts: ReadonlyMap<string, number | undefined>;
  /** The ports of each service in URLs of the project. */
  readonly calledPorts: ReadonlyMap<string, ReadonlySet<number>>;
  /** The names of variables that several services have. */
  readonly sharedVariables: ReadonlySet<string>;
  /** The services that run each image. */
  readonly imageUsers: ReadonlyMap<string, readonly ImageUser[]>;
}

/** A port or URL at which clients other than the apps of this machine reach an app, and the reason why it is public. */
export interface PublicPlace {
  /** The public URL; null if this entry describes a port. */
  readonly url: string | null;
  /** The public port of the machine, such as `222/tcp` or `192.0.2.1:53/udp`; null if this entry describes a URL. */
  readonly port: string | null;
  /** The reason why the address is public, as the end of the sentence "public, because ...". */
  readonly why: string;
  /** The HTTP port in the container to which the URL leads, with its evidence. */
  readonly web?: WebPort | undefined;
  readonly place: SourceLocation;
}

/** A value of an app's Secret that the user must set. */
export interface SecretValue {
  readonly secret: string;
  readonly key: string;
}

/** An environment variable of a service, with the node of the Compose file that contains its value. */
export interface EnvVariable {
  readonly name: string;
  readonly value: string;
  readonly node: ComposeNode;
}

/** The conversion of one service to an App: its input, its output, and its findings. */
export class ServiceConversion {
  readonly service: string;
  /** The location of the service's declaration. */
  readonly place: SourceLocation;
  /** The name of the App. */
  readonly app: string;
  readonly body: Mapping;
  readonly project: ComposeProject;
  readonly options: ConversionOptions;
  /** The names of the Apps of all converted services. */
  readonly apps: ReadonlyMap<string, string>;
  readonly spec: AppSpec = {};
  readonly env = new Map<string, EnvVariable>();
  /** The names of the App's own volumes, by their names in the Compose file. */
  readonly volumeNames = new Map<string, string>();
  readonly secretValues: SecretValue[] = [];
  readonly publicPlaces: PublicPlace[] = [];
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

  /** Adds a finding for a value that works in another way under Berth. */
  addChange(target: ComposeNode | Entry, message: string, hint?: string): void {
    this.#findings.add("changed", this.service, target, message, hint);
  }

  addLoss(target: ComposeNode | Entry, message: string, hint?: string): void {
    this.#findings.add("lost", this.service, target, message, hint);
  }

  /** Reports a key or value of the Compose file without which the App is less protected than the service. */
  addUnsafe(target: ComposeNode | Entry, message: string, hint?: string): void {
    this.#findings.add("unsafe", this.service, target, message, hint);
  }

  /**
   * Adds a finding without marking its value as handled, because another step of the conversion also reads the value.
   */
  addUnhandledFinding(
    level: Exclude<FindingLevel, "failed">,
    target: ComposeNode,
    message: string,
    hint?: string,
  ): void {
    this.#findings.addWithoutHandling(level, this.service, target, message, hint);
  }

  /** Adds a finding that concerns the whole service. */
  addServiceFinding(level: FindingLevel, message: string, hint?: string): void {
    if (level === "failed") this.isFailed = true;
    const { path } = this.body;
    this.#findings.addForService(level, this.service, { place: this.place, path }, message, hint);
  }

  /** Adds a finding that makes the conversion fail. The conversion continues, to collect all findings. */
  addFailure(target: ComposeNode | Entry, message: string, hint?: string): void {
    this.isFailed = true;
    this.#findings.add("failed", this.service, target, message, hint);
  }

  addPublic(place: PublicPlace): void {
    this.publicPlaces.push(place);
  }

  markHandled(node: ComposeNode | undefined): void {
    this.#findings.markHandled(node);
  }

  /** Returns a scalar as text. Reports a list or a mapping as lost, and returns undefined. */
  readText(node: ComposeNode | undefined): string | undefined {
    if (!node || isNull(node)) return undefined;
    if (node.kind !== "scalar") {
      this.addLoss(node, "this value is omitted: a single value was expected here");
      return undefined;
    }
    this.markHandled(node);
    return node.text;
  }

  /** Returns true if the scalar is one of the words for true in YAML 1.1, such as `yes` or `on`. */
  isTrue(node: ComposeNode | undefined): boolean {
    return /^(true|yes|y|on|1)$/i.test(this.readText(node) ?? "");
  }

  /**
   * Returns the scalars of a list; a single scalar counts as a list of one. Reports nested lists and mappings as lost.
   */
  readTexts(node: ComposeNode | undefined): Scalar[] {
    const found: Scalar[] = [];
    for (const item of listItems(node)) {
      if (item.kind !== "scalar")
        this.addLoss(item, "this value is omitted: text was expected here");
      else if (item.value !== null) found.push(item);
    }
    return found;
  }

  /** Returns the entries of a mapping, except those whose value is null. */
  listEntries(node: ComposeNode | undefined): readonly Entry[] {
    return listEntries(node).filter(({ value }) => !isNull(value));
  }
}
