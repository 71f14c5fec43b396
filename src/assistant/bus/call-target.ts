import { toText } from "../../dbus/bus-values.ts";
import type { Frame } from "../../dbus/frame-reader.ts";
import type { BusValue, BusVariant } from "../../dbus/port.ts";
import { BusReplyError } from "./bus-reply-error.ts";
import type { ObjectNode, ObjectTree, ServedObject } from "./object-tree.ts";
import type { MethodDescription } from "./parse-interface-file.ts";
import type { BusMethod } from "./port.ts";
import { INTROSPECTABLE, PEER, PROPERTIES, standardInterfaces } from "./standard-interfaces.ts";

/** The method that a call refers to, and its implementation. */
export interface CallTarget {
  readonly description: MethodDescription;
  readonly run: BusMethod;
}

const DOCTYPE =
  '<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"\n' +
  ' "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">\n';

const emptyNode: ObjectNode = { interfaces: new Map(), children: [] };

/**
 * Finds the method that a message calls. Throws BusReplyError `UnknownObject`, `UnknownInterface` or
 * `UnknownMethod`, and `InvalidArgs` if the arguments do not have the method's types.
 */
export function findCallTarget(
  frame: Frame,
  objects: ObjectTree,
  machineId: () => Promise<string>,
): CallTarget {
  const { path = "", member = "" } = frame;
  const node = objects.at(path);
  // D-Bus requires that the interface Peer works with every path.
  if (!node && frame.interface !== PEER) {
    throw new BusReplyError(
      "UnknownObject",
      path === ""
        ? "there is no object with a path of that length"
        : `there is no object at ${path}`,
    );
  }
  const target =
    frame.interface === undefined
      ? findTargetByMember(node ?? emptyNode, member, machineId)
      : findTargetIn(node ?? emptyNode, frame.interface, member, machineId);
  const { inSignature } = target.description;
  if (frame.signature !== inSignature) {
    throw new BusReplyError(
      "InvalidArgs",
      `${member} takes ${describeTypes(inSignature)} and was called with ${describeTypes(frame.signature)}`,
    );
  }
  return target;
}

function describeTypes(signature: string): string {
  return signature === "" ? "no arguments" : `arguments of the types "${signature}"`;
}

function findTargetIn(
  node: ObjectNode,
  name: string,
  member: string,
  machineId: () => Promise<string>,
): CallTarget {
  const object = node.interfaces.get(name);
  const target = object
    ? findOwnTarget(object, member)
    : findStandardTarget(node, name, member, machineId);
  if (target) return target;
  const isKnown = object || standardInterfaces.some((standard) => standard.name === name);
  if (!isKnown) throw new BusReplyError("UnknownInterface", `the object has no interface ${name}`);
  throw new BusReplyError("UnknownMethod", `the interface ${name} has no method ${member}`);
}

/**
 * Finds a method by its name alone, because D-Bus allows calls without an interface. The object's own interfaces come
 * before the standard interfaces.
 */
function findTargetByMember(
  node: ObjectNode,
  member: string,
  machineId: () => Promise<string>,
): CallTarget {
  const own = [...node.interfaces.values()].flatMap(
    (object) => findOwnTarget(object, member) ?? [],
  );
  const standard = standardInterfaces.flatMap(
    ({ name }) => findStandardTarget(node, name, member, machineId) ?? [],
  );
  const [target, other] = own.length > 0 ? own : standard;
  if (!target) throw new BusReplyError("UnknownMethod", `the object has no method ${member}`);
  if (other) {
    throw new BusReplyError(
      "UnknownMethod",
      `more than one interface has ${member}: name the interface`,
    );
  }
  return target;
}

function findOwnTarget(
  { description, served }: ServedObject,
  member: string,
): CallTarget | undefined {
  const method = description.methods.get(member);
  const run = method && served.methods[member];
  return method && run && { description: method, run };
}

function findStandardTarget(
  node: ObjectNode,
  name: string,
  member: string,
  machineId: () => Promise<string>,
): CallTarget | undefined {
  const description = standardInterfaces
    .find((standard) => standard.name === name)
    ?.methods.get(member);
  if (!description) return undefined;
  const methods: Readonly<Record<string, BusMethod>> = {
    [`${PROPERTIES}.Get`]: ({ args }) => [readProperty(node, toText(args[0]), toText(args[1]))],
    [`${PROPERTIES}.GetAll`]: ({ args }) => [readProperties(node, toText(args[0]))],
    [`${PROPERTIES}.Set`]: ({ args }) => refuseToSet(node, toText(args[0]), toText(args[1])),
    [`${INTROSPECTABLE}.Introspect`]: () => [buildIntrospection(node)],
    [`${PEER}.Ping`]: () => [],
    [`${PEER}.GetMachineId`]: async () => [await machineId()],
  };
  const run = methods[`${name}.${member}`];
  return run && { description, run };
}

function readProperty(node: ObjectNode, interfaceName: string, name: string): BusVariant {
  const [object] = findObjects(node, interfaceName).filter(({ description }) =>
    description.properties.has(name),
  );
  const variant = object && readVariant(object, name);
  if (!variant) throw new BusReplyError("UnknownProperty", `there is no property ${name}`);
  return variant;
}

function readProperties(node: ObjectNode, interfaceName: string): BusValue {
  return new Map(
    findObjects(node, interfaceName).flatMap((object) =>
      [...object.description.properties.keys()].flatMap((name) => {
        const variant = readVariant(object, name);
        return variant ? [[name, variant] as const] : [];
      }),
    ),
  );
}

function refuseToSet(node: ObjectNode, interfaceName: string, name: string): never {
  readProperty(node, interfaceName, name);
  throw new BusReplyError("PropertyReadOnly", `the property ${name} is read-only`);
}

function readVariant({ description, served }: ServedObject, name: string): BusVariant | undefined {
  const property = description.properties.get(name);
  const read = property && served.properties[name];
  return property && read && { signature: property.signature, value: read() };
}

/**
 * Returns the objects whose properties a call may read: the object that implements the interface or, as D-Bus defines
 * for an empty interface name, all objects of the node. Returns none for a standard interface, because it has no
 * properties.
 */
function findObjects(node: ObjectNode, interfaceName: string): ServedObject[] {
  if (interfaceName === "") return [...node.interfaces.values()];
  if (standardInterfaces.some(({ name }) => name === interfaceName)) return [];
  const object = node.interfaces.get(interfaceName);
  if (!object) {
    throw new BusReplyError("UnknownInterface", `the object has no interface ${interfaceName}`);
  }
  return [object];
}

/**
 * Returns the XML for Introspect: the object's interfaces as in their interface files, the standard interfaces, and
 * the child nodes.
 */
function buildIntrospection(node: ObjectNode): string {
  const interfaces = [...node.interfaces.values()].map(({ description }) => description.xml);
  const standard = standardInterfaces.map(({ xml }) => xml);
  const children = [...node.children].toSorted().map((name) => `  <node name="${name}"/>`);
  return `${DOCTYPE}<node>\n${[...interfaces, ...standard, ...children].join("\n")}\n</node>\n`;
}
