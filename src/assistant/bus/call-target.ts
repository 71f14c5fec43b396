import type { Frame } from "../../dbus/frame-reader.ts";
import type { BusValue, BusVariant } from "../../dbus/port.ts";
import { textOf } from "../../dbus/values.ts";
import { BusFault } from "./bus-fault.ts";
import type { MethodDescription } from "./interface-file.ts";
import { introspectionOf } from "./introspection.ts";
import type { ObjectNode, ObjectTree, ServedObject } from "./object-tree.ts";
import type { BusMethod } from "./port.ts";
import { INTROSPECTABLE, PEER, PROPERTIES, standardInterfaces } from "./standard-interfaces.ts";

/** What a call means: a method, and what runs it. */
export interface CallTarget {
  readonly description: MethodDescription;
  readonly run: BusMethod;
}

const nothing: ObjectNode = { interfaces: new Map(), children: [] };

/**
 * Finds what is called. Throws BusFault `UnknownObject`, `UnknownInterface` or `UnknownMethod`, and
 * `InvalidArgs` where the arguments are not of the method's types.
 */
export function targetOf(
  frame: Frame,
  objects: ObjectTree,
  machineId: () => Promise<string>,
): CallTarget {
  const { path = "", member = "" } = frame;
  const node = objects.at(path);
  // Every path of a program answers Peer, as D-Bus has it.
  if (!node && frame.interface !== PEER) {
    throw new BusFault(
      "UnknownObject",
      path === ""
        ? "there is no object with a path of that length"
        : `there is no object at ${path}`,
    );
  }
  const target =
    frame.interface === undefined
      ? targetByMember(node ?? nothing, member, machineId)
      : targetIn(node ?? nothing, frame.interface, member, machineId);
  const { inSignature } = target.description;
  if (frame.signature !== inSignature) {
    throw new BusFault(
      "InvalidArgs",
      `${member} takes ${typesText(inSignature)} and was called with ${typesText(frame.signature)}`,
    );
  }
  return target;
}

function typesText(signature: string): string {
  return signature === "" ? "no arguments" : `arguments of the types "${signature}"`;
}

function targetIn(
  node: ObjectNode,
  name: string,
  member: string,
  machineId: () => Promise<string>,
): CallTarget {
  const object = node.interfaces.get(name);
  const target = object ? ownTarget(object, member) : standardTarget(node, name, member, machineId);
  if (target) return target;
  const isKnown = object || standardInterfaces.some((standard) => standard.name === name);
  if (!isKnown) throw new BusFault("UnknownInterface", `the object has no interface ${name}`);
  throw new BusFault("UnknownMethod", `the interface ${name} has no method ${member}`);
}

/** D-Bus lets a caller leave the interface out. The object's own come first. */
function targetByMember(
  node: ObjectNode,
  member: string,
  machineId: () => Promise<string>,
): CallTarget {
  const own = [...node.interfaces.values()].flatMap((object) => ownTarget(object, member) ?? []);
  const standard = standardInterfaces.flatMap(
    ({ name }) => standardTarget(node, name, member, machineId) ?? [],
  );
  const [target, other] = own.length > 0 ? own : standard;
  if (!target) throw new BusFault("UnknownMethod", `the object has no method ${member}`);
  if (other) {
    throw new BusFault("UnknownMethod", `more than one interface has ${member}: name the one`);
  }
  return target;
}

function ownTarget({ description, served }: ServedObject, member: string): CallTarget | undefined {
  const method = description.methods.get(member);
  const run = method && served.methods[member];
  return method && run && { description: method, run };
}

function standardTarget(
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
    [`${PROPERTIES}.Get`]: ({ args }) => [propertyOf(node, textOf(args[0]), textOf(args[1]))],
    [`${PROPERTIES}.GetAll`]: ({ args }) => [propertiesOf(node, textOf(args[0]))],
    [`${PROPERTIES}.Set`]: ({ args }) => refuseToSet(node, textOf(args[0]), textOf(args[1])),
    [`${INTROSPECTABLE}.Introspect`]: () => [introspectionOf(node)],
    [`${PEER}.Ping`]: () => [],
    [`${PEER}.GetMachineId`]: async () => [await machineId()],
  };
  const run = methods[`${name}.${member}`];
  return run && { description, run };
}

function propertyOf(node: ObjectNode, interfaceName: string, name: string): BusVariant {
  const [object] = objectsWith(node, interfaceName).filter(({ description }) =>
    description.properties.has(name),
  );
  const variant = object && variantOf(object, name);
  if (!variant) throw new BusFault("UnknownProperty", `there is no property ${name}`);
  return variant;
}

function propertiesOf(node: ObjectNode, interfaceName: string): BusValue {
  return new Map(
    objectsWith(node, interfaceName).flatMap((object) =>
      [...object.description.properties.keys()].flatMap((name) => {
        const variant = variantOf(object, name);
        return variant ? [[name, variant] as const] : [];
      }),
    ),
  );
}

function refuseToSet(node: ObjectNode, interfaceName: string, name: string): never {
  propertyOf(node, interfaceName, name);
  throw new BusFault("PropertyReadOnly", `the property ${name} can only be read`);
}

function variantOf({ description, served }: ServedObject, name: string): BusVariant | undefined {
  const property = description.properties.get(name);
  const read = property && served.properties[name];
  return property && read && { signature: property.signature, value: read() };
}

/** An empty name means any of them, as D-Bus has it. The standard interfaces have no properties. */
function objectsWith(node: ObjectNode, interfaceName: string): ServedObject[] {
  if (interfaceName === "") return [...node.interfaces.values()];
  if (standardInterfaces.some(({ name }) => name === interfaceName)) return [];
  const object = node.interfaces.get(interfaceName);
  if (!object) {
    throw new BusFault("UnknownInterface", `the object has no interface ${interfaceName}`);
  }
  return [object];
}
