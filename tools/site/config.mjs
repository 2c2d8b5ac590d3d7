// The documentation as a static site: `make site`. VitePress reads docs/ as it is; links
// that lead out of it lead to the repository.
import { defineConfig } from 'vitepress'

const repository = 'https://github.com/evalfleet/evalfleet'

const page = (name, text) => ({ text: text ?? name[0].toUpperCase() + name.slice(1), link: `/${name}` })

export const sidebar = [
  { text: 'Getting started', items: [
    page('quickstart', 'Quick start'), page('which-judge', 'Which judge, how many pairs'), page('configuration'), page('recipes'), page('answers', 'Files of answers'),
    page('troubleshooting'), page('glossary') ] },
  { text: 'Evaluations', items: [
    page('providers'), page('templates', 'Prompt templates'), page('panels'), page('runs', 'Runs without judges'), page('experiments'),
    page('batch', 'Batch files'), page('fallback', 'Fallback models'), page('report'),
    page('rank', 'Rank verdicts that exist'), page('tables', 'Tables in pandas and others') ] },
  { text: 'Fleets', items: [
    page('fleet', 'Install a fleet'), page('machines', 'Three machines with systemd'), page('kubernetes'), page('redis'), page('postgres', 'PostgreSQL'), page('operating'), page('pages'),
    page('webhook'), page('monitoring'), page('simulator') ] },
  { text: 'Reference', items: [
    page('files', 'Keys of both files'), page('commands', 'Commands and flags'), page('scripting', 'Exit codes and JSON'), page('errors'),
    page('python'), page('library', 'Go library'), page('formats'), page('guarantees'), page('limiter', 'The limiter and its model'), page('security'), page('architecture'), page('benchmarks'), page('scale') ] },
]

export default defineConfig({
  title: 'evalfleet',
  description: 'Ranks documents and model answers with LLM judges',
  base: process.env.SITE_BASE ?? '/',
  cleanUrls: false,
  markdown: {
    attrs: { disable: true },
    config: (md) => {
      md.set({ html: false }) // placeholders such as <id> are text
      md.core.ruler.before('normalize', 'repository', (state) => {
        state.src = state.src
          .replace(/^<!--[^]*?-->$/gm, '')
          .replace(/\]\(\.\.\/([^)]*)\)/g, `](${repository}/blob/main/$1)`)
      })
      const { escapeHtml } = md.utils // Vue would evaluate what is in two braces
      md.renderer.rules.code_inline = (tokens, i) => `<code v-pre>${escapeHtml(tokens[i].content)}</code>`
      md.renderer.rules.text = (tokens, i) => escapeHtml(tokens[i].content).replaceAll('{{', '&#123;&#123;')
    },
  },
  themeConfig: {
    nav: [{ text: 'GitHub', link: repository }],
    sidebar,
    search: { provider: 'local' },
    outline: [2, 3],
  },
})
