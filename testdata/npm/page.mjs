// Opens pages in Chromium: node page.mjs CHROMIUM FOLDER URL... Each URL is
// opened at desktop and phone width, light and dark; axe-core looks for what
// keeps people with disabilities out. Screenshots go to FOLDER unless it is
// empty. Prints one line of JSON.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'

const [executablePath, folder, ...urls] = process.argv.slice(2)
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const deadline = setTimeout(() => { console.error('timeout'); process.exit(1) }, 90000)
const browser = await chromium.launch({
  executablePath,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
})
const found = []
for (const [width, height] of [[1200, 900], [360, 740]]) {
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: 'reduce' })
    const page = await context.newPage()
    const messages = []
    page.on('console', (m) => { if (m.type() === 'error') messages.push(m.text()) })
    page.on('pageerror', (e) => messages.push(String(e)))
    for (const [i, url] of urls.entries()) {
      messages.length = 0
      const answer = await page.goto(url)
      await page.evaluate(axe)
      const report = await page.evaluate(() => axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }))
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth)
      if (folder) await page.screenshot({ path: join(folder, `${i}-${width}-${colorScheme}.png`), fullPage: true })
      found.push({
        url, width, colorScheme, wide, messages: answer.ok() ? messages.slice() : [],
        violations: report.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`),
      })
    }
    await context.close()
  }
}
await browser.close()
clearTimeout(deadline)
console.log(JSON.stringify(found))
