// Reads a resource and profiles of FHIR; prints what the snapshots of the profiles find wrong: how often elements may
// be there, and every rule, as the FHIRPath engine of the National Library of Medicine evaluates it.
const fhirpath = require("fhirpath"), r4 = require("fhirpath/fhir-context/r4");
const { resource, root, profiles } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const wrong = [], unclear = [];
let rules = 0;
console.log = ((log) => (text) => String(text).startsWith("TRACE") || log(text))(console.log); // of rules that call trace()

// All nodes at a path such as Questionnaire.item.text; items may stand in items, to any depth.
function nodes(path) {
  const [type, ...parts] = path.split(".");
  let found = [resource];
  for (const part of parts) {
    const values = found.flatMap((one) => children(one, part));
    found = part === "item" ? values.concat(inner(values)) : values;
  }
  return found;
}
function children(node, part) {
  if (part.endsWith("[x]")) {
    const start = part.slice(0, -3);
    return Object.keys(node).filter((key) => key.startsWith(start)).map((key) => node[key]);
  }
  const value = node[part];
  return value === undefined ? [] : Array.isArray(value) ? value : [value];
}
function inner(items) {
  const below = items.flatMap((item) => item.item || []);
  return below.length ? below.concat(inner(below)) : [];
}
for (const profile of profiles) {
  for (const element of profile.snapshot.element) {
    const path = element.path, at = path.lastIndexOf(".");
    const sliced = element.id.split(":").length > 1;
    if (sliced && !/^\w+\.extension:\w+$/.test(element.id)) continue;
    const url = sliced && (element.type?.[0]?.profile?.[0] || "").split("|")[0];
    const own = (node, part) => children(node, part).filter((one) => !url || one.url === url);
    if (at > 0 && !path.slice(0, at).split(".").includes("contained")) {
      const name = path.slice(at + 1);
      for (const parent of nodes(path.slice(0, at))) {
        if (parent === null || typeof parent !== "object") continue;
        const n = own(parent, name).length;
        if (n < element.min || (element.max !== "*" && n > Number(element.max)))
          wrong.push(`${profile.name}: ${element.id} is there ${n} times, not ${element.min} to ${element.max}`);
      }
    }
    if (sliced) continue;
    for (const rule of element.constraint || []) {
      if (rule.severity !== "error" || !rule.expression || /htmlChecks|conformsTo/.test(rule.expression)) continue;
      for (const node of nodes(path)) {
        if (node === null || typeof node !== "object") continue;
        const context = { resource, rootResource: root || resource };
        let holds;
        try {
          holds = fhirpath.evaluate(node, { base: path, expression: rule.expression }, context, r4);
        } catch (error) {
          unclear.push(`${profile.name}: ${rule.key} at ${element.id}: ${error.message}`);
          continue;
        }
        rules += 1;
        if (holds.length && holds[0] !== true) wrong.push(`${profile.name}: ${rule.key} at ${element.id}: ${rule.human}`);
      }
    }
  }
}
console.log(JSON.stringify({ wrong, unclear, rules }));
