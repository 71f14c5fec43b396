/** A D-Bus interface, read from the XML file whose text Introspect also returns. */
export interface InterfaceDescription {
  readonly name: string;
  readonly methods: ReadonlyMap<string, MethodDescription>;
  /** For each signal name, the D-Bus signature of its arguments. */
  readonly signals: ReadonlyMap<string, string>;
  readonly properties: ReadonlyMap<string, PropertyDescription>;
  /** The text `<interface …>…</interface>` from the file. */
  readonly xml: string;
}

export interface MethodDescription {
  readonly inSignature: string;
  readonly outSignature: string;
}

export interface PropertyDescription {
  readonly signature: string;
}

type Attributes = ReadonlyMap<string, string>;

interface Element {
  readonly name: string;
  readonly attributes: Attributes;
  readonly children: Element[];
}

/**
 * Reads the interfaces of an introspection file. It supports only the XML of Berth's own files. Throws a TypeError
 * that describes the fault.
 */
export function parseInterfaceFile(text: string): InterfaceDescription[] {
  const blocks = text.match(/^[ \t]*<interface\b[\s\S]*?<\/interface>/gm) ?? [];
  return blocks.map((xml) => {
    const element = parseElement(xml);
    return {
      name: getRequiredAttribute(element, "name"),
      methods: byName(element, "method", (method) => ({
        inSignature: joinArgumentTypes(method, (direction) => direction !== "out"),
        outSignature: joinArgumentTypes(method, (direction) => direction === "out"),
      })),
      signals: byName(element, "signal", (signal) => joinArgumentTypes(signal, () => true)),
      properties: byName(element, "property", parseProperty),
      xml,
    };
  });
}

function parseProperty(element: Element): PropertyDescription {
  if (getRequiredAttribute(element, "access") !== "read") {
    throw new TypeError(`the property ${getRequiredAttribute(element, "name")} must be read-only`);
  }
  return { signature: getRequiredAttribute(element, "type") };
}

function joinArgumentTypes(
  element: Element,
  isWanted: (direction: string | undefined) => boolean,
): string {
  return element.children
    .filter(({ name, attributes }) => name === "arg" && isWanted(attributes.get("direction")))
    .map((arg) => getRequiredAttribute(arg, "type"))
    .join("");
}

function byName<T>(
  parent: Element,
  kind: string,
  read: (element: Element) => T,
): ReadonlyMap<string, T> {
  const elements = parent.children.filter(({ name }) => name === kind);
  return new Map(elements.map((element) => [getRequiredAttribute(element, "name"), read(element)]));
}

function getRequiredAttribute(element: Element, attribute: string): string {
  const value = element.attributes.get(attribute);
  if (value === undefined) throw new TypeError(`<${element.name}> has no ${attribute}`);
  return value;
}

function parseElement(xml: string): Element {
  const root: Element = { name: "", attributes: new Map(), children: [] };
  const open: Element[] = [root];
  const tags = /<!--[\s\S]*?-->|<(\/?)([\w.]+)((?:\s+[\w.]+="[^"]*")*)\s*(\/?)>/g;
  for (const [, closing, name = "", attributes = "", selfClosing] of xml.matchAll(tags)) {
    if (name === "") continue; // The match is a comment.
    const parent = open.at(-1) ?? root;
    if (closing === "/") {
      if (parent.name !== name) throw new TypeError(`</${name}> closes <${parent.name}>`);
      open.pop();
      continue;
    }
    const element: Element = { name, attributes: parseAttributes(attributes), children: [] };
    parent.children.push(element);
    if (selfClosing !== "/") open.push(element);
  }
  const [element] = root.children;
  if (!element || open.length !== 1) throw new TypeError("an element is not closed");
  return element;
}

function parseAttributes(text: string): Attributes {
  const pairs = text.matchAll(/([\w.]+)="([^"]*)"/g);
  return new Map([...pairs].map(([, name = "", value = ""]) => [name, value]));
}
