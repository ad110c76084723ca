"""Conveniences for readers who allow scripts; the page says everything without them."""

SCRIPT = """
(function(){
var root=document.documentElement,tip=document.getElementById('tip'),said=document.getElementById('said');
root.classList.add('js');
var toggle=document.getElementById('theme');
toggle.addEventListener('click',function(){
 var set=root.getAttribute('data-theme');
 var dark=set?set==='dark':matchMedia('(prefers-color-scheme: dark)').matches;
 root.setAttribute('data-theme',dark?'light':'dark');
});
document.querySelectorAll('svg title').forEach(function(title){
 title.parentNode.setAttribute('data-tip',title.textContent);title.remove();
});
function show(event){
 var at=event.target.closest&&event.target.closest('[data-tip]');
 if(!at){tip.hidden=true;return;}
 tip.textContent=at.getAttribute('data-tip');tip.hidden=false;
 var width=tip.offsetWidth,x=Math.min(event.clientX+14,innerWidth-width-8);
 tip.style.left=Math.max(8,x)+'px';
 tip.style.top=(event.clientY+tip.offsetHeight+24>innerHeight?event.clientY-tip.offsetHeight-12:event.clientY+18)+'px';
}
document.addEventListener('pointermove',show);
document.addEventListener('pointerdown',show);
document.addEventListener('scroll',function(){tip.hidden=true;},{passive:true});
function copy(at){
 if(!navigator.clipboard){return;}
 navigator.clipboard.writeText(at.getAttribute('data-key')||at.textContent).then(function(){
  at.classList.add('copied');said.textContent='Copied';
  setTimeout(function(){at.classList.remove('copied');said.textContent='';},1200);
 },function(){said.textContent='The browser did not allow copying';});
}
addEventListener('beforeprint',function(){
 document.querySelectorAll('details:not([open])').forEach(function(at){at.open=true;at.classList.add('folded');});
});
addEventListener('afterprint',function(){
 document.querySelectorAll('details.folded').forEach(function(at){at.open=false;at.classList.remove('folded');});
});
document.addEventListener('click',function(event){
 var at=event.target.closest&&event.target.closest('code.key,.key-name,code.command');
 if(at){copy(at);}
});
})();
"""
