import type { ObjectNode } from "./object-tree.ts";
import { standardInterfaces } from "./standard-interfaces.ts";

const DOCTYPE =
  '<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"\n' +
  ' "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">\n';

/** What Introspect answers: the interfaces as their files have them, the standard ones, and what is below. */
export function buildIntrospection(node: ObjectNode): string {
  const interfaces = [...node.interfaces.values()].map(({ description }) => description.xml);
  const standard = standardInterfaces.map(({ xml }) => xml);
  const children = [...node.children].toSorted().map((name) => `  <node name="${name}"/>`);
  return `${DOCTYPE}<node>\n${[...interfaces, ...standard, ...children].join("\n")}\n</node>\n`;
}
